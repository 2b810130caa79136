package pgtest

import "github.com/fairlock/fairlock/testnet"

// secure makes the certificates of a server with Options.TLS, and returns its settings.
func (s *Server) secure() (settings map[string]string, err error) {
	s.ca, err = testnet.NewCA(s.dir.Path())
	if err != nil {
		return nil, err
	}
	ca := s.ca
	if s.opts.ServerCA != nil {
		ca = s.opts.ServerCA(ca)
	}
	cert, key, err := ca.Issue("server")
	if err != nil {
		return nil, err
	}
	for _, file := range []string{s.ca.File(), cert, key} {
		if err := s.as.own(file); err != nil {
			return nil, err
		}
	}
	return map[string]string{"ssl": "on", "ssl_ca_file": s.ca.File(), "ssl_cert_file": cert, "ssl_key_file": key}, nil
}

// CA returns the authority that has signed the server's certificate, and issues those of clients;
// nil without Options.TLS.
func (s *Server) CA() *testnet.CA { return s.ca }
