package zktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	debianJars = "/usr/share/java"
	toInstall  = "install it (Debian: apt-get install libzookeeper-java default-jre-headless)"
)

// Find returns the java program and the class path with which Start runs
// ZooKeeper. The class path is that of the unpacked Apache release that the
// environment variable ZOOKEEPER_HOME names, 3.8 or later, or else of Debian's
// package libzookeeper-java. Java is that of JAVA_HOME, or else the first one in PATH.
// The error is one sentence that names what to install or to set.
func Find() (java, classpath string, err error) {
	return find(places{
		zookeeper: os.Getenv("ZOOKEEPER_HOME"),
		java:      os.Getenv("JAVA_HOME"),
		debian:    debianJars,
		lookPath:  exec.LookPath,
	})
}

// places are the locations to search.
type places struct {
	zookeeper, java string // "" is not set
	debian          string // folder of jars
	lookPath        func(program string) (string, error)
}

func find(in places) (java, classpath string, err error) {
	// The servers run in another working directory than this process.
	for _, home := range []*string{&in.zookeeper, &in.java} {
		if *home == "" {
			continue
		}
		*home, err = filepath.Abs(*home)
		if err != nil {
			return "", "", fmt.Errorf("zktest: find ZooKeeper and Java: %w", err)
		}
	}
	if in.zookeeper != "" {
		classpath, err = releaseJars(in.zookeeper)
	} else {
		classpath, err = packagedJars(in.debian)
	}
	if err != nil {
		return "", "", err
	}
	if in.java != "" {
		java = filepath.Join(in.java, "bin", "java")
		if _, err := in.lookPath(java); err != nil {
			return "", "", fmt.Errorf("zktest: JAVA_HOME is %q, but there is no program bin/java: set it to a Java runtime or unset it", in.java)
		}
		return java, classpath, nil
	}
	java, err = in.lookPath("java")
	if err != nil {
		return "", "", fmt.Errorf("zktest: no java in PATH: install a Java runtime (Debian: apt-get install default-jre-headless) or set JAVA_HOME")
	}
	return java, classpath, nil
}

// releaseJars is the class path of an unpacked release: its own jars and those
// that came with it.
func releaseJars(home string) (string, error) {
	lib := filepath.Join(home, "lib")
	for _, dir := range []string{lib, home} {
		jars, _ := filepath.Glob(filepath.Join(dir, "zookeeper-[0-9]*.jar"))
		if len(jars) > 0 {
			// Java expands the stars itself, to jars only.
			return classPath(filepath.Join(lib, "*"), filepath.Join(home, "*")), nil
		}
	}
	return "", fmt.Errorf("zktest: ZOOKEEPER_HOME is %q, but neither there nor in its lib is a zookeeper-*.jar: unpack an Apache release there, or unset it and %s", home, toInstall)
}

// packagedJars is the class path of Debian's package. The manifest of zookeeper.jar
// names the other jars, but not all that TLS needs, and no logger for the server's
// errors.
func packagedJars(dir string) (string, error) {
	server := filepath.Join(dir, "zookeeper.jar")
	if _, err := os.Stat(server); err != nil {
		return "", fmt.Errorf("zktest: no ZooKeeper here: %s, or set ZOOKEEPER_HOME to an unpacked Apache release", toInstall)
	}
	return classPath(
		server,
		filepath.Join(dir, "slf4j-simple.jar"),
		filepath.Join(dir, "netty-codec.jar"),
		filepath.Join(dir, "netty-resolver.jar"),
		filepath.Join(dir, "netty-transport-native-unix-common.jar"),
	), nil
}

func classPath(entries ...string) string {
	return strings.Join(entries, string(os.PathListSeparator))
}
