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

// levels are the levels of the loggers that log how a member starts, and little after that:
// Start waits for as long as there are new lines. All others log errors only.
func levels() map[string]string {
	const in = "org.apache.zookeeper.server."
	all := map[string]string{}
	for _, logger := range []string{"quorum", "persistence", "util", "watch", "ServerMetrics", "ZKDatabase", "ContainerManager"} {
		all[in+logger] = "INFO"
	}
	for _, logger := range []string{"LeaderSessionTracker", "LearnerSessionTracker"} { // every session
		all[in+"quorum."+logger] = "ERROR"
	}
	return all
}

// logback is the beginning of the logging configuration for releases from 3.8 on, which
// would log everything without it. Debian's package has slf4j-simple instead, which system
// properties configure.
const logback = `<configuration>
  <appender name="stderr" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="stderr"/></root>
`

// write writes the member's configuration. Its data stays, if there is any.
func (m *Member) write() error {
	data := filepath.Join(m.dir, "data")
	for _, dir := range []string{m.dir, data} { // only these two: Options.Dir must exist
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("zktest: lay out %q: %w", m.Name(), err)
		}
	}
	var logging strings.Builder
	logging.WriteString(logback)
	for logger, level := range levels() {
		logging.WriteString(fmt.Sprintf("  <logger name=%q level=%q/>\n", logger, level))
	}
	for file, text := range map[string]string{
		filepath.Join(data, "myid"):         strconv.Itoa(m.id()) + "\n",
		filepath.Join(m.dir, "zoo.cfg"):     m.config(),
		filepath.Join(m.dir, "logback.xml"): logging.String() + "</configuration>\n",
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
		if opts.Members > 1 { // to ZooKeeper, a single server is no ensemble
			at := m.way(other)
			_, election, _ := net.SplitHostPort(at.election)
			lines["server."+strconv.Itoa(other.id())] = at.quorum + ":" + election
		}
	}
	maps.Copy(lines, opts.Config)
	return strings.Join(settings("", lines), "\n") + "\n"
}

// arguments returns the arguments of the java program.
func (m *Member) arguments() []string {
	opts := m.ensemble.opts
	properties := map[string]string{
		"java.io.tmpdir":              m.dir, // Java leaves native libraries there
		"zookeeper.jmx.log4j.disable": "true",
		"zookeeper.forceSync":         "no",
		// One attempt is enough: the port stays taken, and the ensemble moves to
		// others.
		"zookeeper.electionPortBindRetry":        "1",
		"znode.container.checkIntervalMs":        strconv.FormatInt(opts.ContainerCheck.Milliseconds(), 10),
		"logback.configurationFile":              filepath.Join(m.dir, "logback.xml"),
		"org.slf4j.simpleLogger.defaultLogLevel": "error",
	}
	for logger, level := range levels() {
		properties["org.slf4j.simpleLogger.log."+logger] = level
	}
	if opts.Fsync {
		properties["zookeeper.forceSync"] = "yes"
	}
	maps.Copy(properties, opts.Properties)
	// The first three flags make Java small and quick. The last one avoids a file
	// in /tmp that a killed Java would leave behind.
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

// environment returns the environment of the servers: ours, with messages in English. The
// errors of a server are only text, in which PortTaken searches.
func environment(ours []string) (all []string) {
	for _, variable := range ours {
		value, found := strings.CutPrefix(variable, "LC_ALL=")
		if found {
			variable = "LC_CTYPE=" + value // the encoding of file names
		}
		all = append(all, variable)
	}
	return append(all, "LC_MESSAGES=C")
}
