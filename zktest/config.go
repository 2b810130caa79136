package zktest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const mainClass = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// logback is what a release from 3.8 on reads to know what to log. Without it, it
// would log everything. Debian's has slf4j-simple, which a property tells.
const logback = `<configuration>
  <appender name="stderr" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="stderr"/></root>
</configuration>
`

// write lays the member's files out; its data, if there is any, stays.
func (m *Member) write() error {
	data := filepath.Join(m.dir, "data")
	for _, dir := range []string{m.dir, data} { // of ours alone: Options.Dir must exist
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("zktest: lay out %q: %w", m.Name(), err)
		}
	}
	for file, text := range map[string]string{
		filepath.Join(data, "myid"):         strconv.Itoa(m.id()) + "\n",
		filepath.Join(m.dir, "zoo.cfg"):     m.config(),
		filepath.Join(m.dir, "logback.xml"): logback,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("zktest: lay out %q: %w", m.Name(), err)
		}
	}
	return nil
}

// config is the member's zoo.cfg.
func (m *Member) config() string {
	opts := m.ensemble.opts
	host, port, _ := net.SplitHostPort(m.addrs.client)
	lines := map[string]string{
		"dataDir":                filepath.Join(m.dir, "data"),
		"tickTime":               strconv.FormatInt(opts.Tick.Milliseconds(), 10),
		"maxSessionTimeout":      strconv.FormatInt(opts.MaxSession.Milliseconds(), 10),
		"initLimit":              "50",
		"syncLimit":              "20",
		"admin.enableServer":     "false", // it would listen on port 8080
		"4lw.commands.whitelist": "*",
		"maxClientCnxns":         "0", // 60 from one address otherwise
		"clientPort":             port,
		"clientPortAddress":      host,
	}
	if opts.Netty || opts.TLS {
		lines["serverCnxnFactory"] = "org.apache.zookeeper.server.NettyServerCnxnFactory"
	}
	if m.ensemble.ca != nil {
		delete(lines, "clientPort")
		delete(lines, "clientPortAddress")
		maps.Copy(lines, map[string]string{
			"secureClientPort":        port,
			"secureClientPortAddress": host,
			"ssl.keyStore.location":   m.ensemble.keyStore,
			"ssl.trustStore.location": m.ensemble.ca.File(),
		})
	}
	for _, other := range m.ensemble.members {
		if opts.Members > 1 { // one alone is no ensemble to ZooKeeper
			at := m.way(other)
			_, election, _ := net.SplitHostPort(at.election)
			lines["server."+strconv.Itoa(other.id())] = at.quorum + ":" + election
		}
	}
	maps.Copy(lines, opts.Config)
	return strings.Join(settings("", lines), "\n") + "\n"
}

// arguments are what java is started with.
func (m *Member) arguments() []string {
	opts := m.ensemble.opts
	properties := map[string]string{
		"java.io.tmpdir":              m.dir, // for native libraries: they are left there
		"zookeeper.jmx.log4j.disable": "true",
		"zookeeper.forceSync":         "no",
		// A port that is taken stays taken: the ensemble moves to others.
		"zookeeper.electionPortBindRetry":        "1",
		"znode.container.checkIntervalMs":        strconv.FormatInt(opts.ContainerCheck.Milliseconds(), 10),
		"logback.configurationFile":              filepath.Join(m.dir, "logback.xml"),
		"org.slf4j.simpleLogger.defaultLogLevel": "error",
	}
	if opts.Fsync {
		properties["zookeeper.forceSync"] = "yes"
	}
	maps.Copy(properties, opts.Properties)
	// Of the flags, the first three make a small and quick Java; the last spares
	// a file in /tmp that a killed Java leaves behind.
	args := []string{"-Xmx" + strconv.FormatInt(opts.HeapBytes, 10), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"}
	args = append(args, settings("-D", properties)...)
	return append(args, "-cp", m.ensemble.classpath, mainClass, filepath.Join(m.dir, "zoo.cfg"))
}

// settings are one "key=value" after the other, always in the same order.
func settings(prefix string, set map[string]string) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		all = append(all, prefix+key+"="+set[key])
	}
	return all
}
