package address

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultUser is the user of Redis whose password needs no name.
const DefaultUser = "default"

// setDatabase sets the number of a database, as Redis's own tools take it.
func (a *Address) setDatabase(path string) error {
	n, err := strconv.ParseUint(path, 10, 16)
	if err != nil {
		return errors.New("the path is the number of a database, 0 if there is none: the root of the locks is a parameter, root=")
	}
	if n > 0 {
		a.Database = strconv.FormatUint(n, 10)
	}
	return nil
}

// setNodes sets how many servers have the data.
func setNodes(a *Address, value string) error {
	n, err := strconv.ParseUint(value, 10, 8)
	if err != nil || n == 0 {
		return errors.New("want how many servers have the data, the master included: 1 for a server alone, 3 for a master with two replicas")
	}
	a.Nodes = int(n)
	return nil
}

// redisParameters are what only Redis has.
func redisParameters() []parameter {
	return []parameter{
		{"root", Redis, setRootBesideDatabase},
		{"nodes", Redis, setNodes},
		{"max-ttl", Redis, duration(func(a *Address) *time.Duration { return &a.MaxTTL })},
		{"master", Redis, text(func(a *Address) *string { return &a.Master })},
		{"sentinel-login", Redis, boolean(func(a *Address) *bool { return &a.SentinelLogin })},
		{"weaker", Redis, boolean(func(a *Address) *bool { return &a.Weaker })},
	}
}

// otherClients returns the parameters of other clients of Redis that have another name here.
func otherClients() map[string]string {
	return map[string]string{
		"addr":            "want the other servers behind the first, joined by commas",
		"db":              "the path is the number of the database",
		"master_set":      "want master=, and the addresses of the sentinels as servers",
		"master_name":     "want master=, and the addresses of the sentinels as servers",
		"mastername":      "want master=, and the addresses of the sentinels as servers",
		"sentinel_master": "want master=, and the addresses of the sentinels as servers",
		"client_name":     "want label=",
		"dial_timeout":    "want timeout=, with a unit",
		"replicas":        "want nodes=, which counts the master too",
		"cluster":         "a cluster is recognized: name some of its nodes",
		"protocol":        "it is chosen",
		"max_ttl":         "want max-ttl=",
	}
}

// checkRedis completes the servers, and returns an error for parts that exclude each other.
func (a *Address) checkRedis() (err error) {
	servers := a.servers
	a.servers = ""
	switch {
	case a.Master == "" && a.SentinelLogin:
		return errors.New("parameter sentinel-login is for sentinels: want master= too, the name of the master that they watch")
	case a.SentinelLogin && a.Password == "" && a.PasswordFile == "":
		return fmt.Errorf("parameter sentinel-login has no login: want %s://user@host and password-file=", a.Service)
	case a.MaxTTL != 0 && a.TTL > a.MaxTTL:
		return fmt.Errorf("ttl=%s is above max-ttl=%s: want a shorter ttl, or a greater max-ttl for all programs of the root", a.TTL, a.MaxTTL)
	case a.Master != "":
		a.Hosts, err = Servers(strings.Split(servers, ","), SentinelPort)
	}
	return err
}
