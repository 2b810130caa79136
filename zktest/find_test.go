package zktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made makes empty programs and jars below a folder and returns the folder.
func made(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range files {
		file = filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, nil, 0o700))
	}
	return dir
}

// inPath returns a lookup that finds java at the given path; "" means nowhere.
func inPath(java string) func(string) (string, error) {
	return func(program string) (string, error) {
		if program == "java" {
			if java == "" {
				return "", exec.ErrNotFound
			}
			return java, nil
		}
		return exec.LookPath(program)
	}
}

func TestFindTakesWhatIsSetFirst(t *testing.T) {
	debian := made(t, "zookeeper.jar")
	binary := made(t, "lib/zookeeper-3.9.3.jar", "lib/netty-codec-4.jar")
	old := made(t, "zookeeper-3.4.14.jar", "lib/log4j.jar")
	home := made(t, "bin/java")
	for name, c := range map[string]struct {
		in              places
		java, classpath string
	}{
		"package":             {places{debian: debian}, "/usr/bin/java", debian + "/zookeeper.jar:"},
		"release":             {places{zookeeper: binary, debian: debian}, "/usr/bin/java", binary + "/lib/*:" + binary + "/*"},
		"release, jar at top": {places{zookeeper: old, debian: debian}, "/usr/bin/java", old + "/lib/*:" + old + "/*"},
		"java home":           {places{debian: debian, java: home}, home + "/bin/java", debian + "/zookeeper.jar:"},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.lookPath = inPath("/usr/bin/java")

			java, classpath, err := find(c.in)

			require.NoError(t, err)
			assert.Equal(t, c.java, java)
			assert.True(t, strings.HasPrefix(classpath, c.classpath), classpath)
		})
	}
}

func TestFindReturnsAbsolutePaths(t *testing.T) {
	t.Chdir(made(t, "zk/lib/zookeeper-3.9.3.jar", "jre/bin/java"))

	java, classpath, err := find(places{zookeeper: "zk", java: "jre", lookPath: exec.LookPath})

	require.NoError(t, err)
	assert.True(t, filepath.IsAbs(java), java)
	for _, entry := range filepath.SplitList(classpath) {
		assert.True(t, filepath.IsAbs(entry), entry)
	}
}

func TestFindErrorsNameWhatIsMissing(t *testing.T) {
	debian, empty := made(t, "zookeeper.jar"), t.TempDir()
	for name, c := range map[string]struct {
		in   places
		java string
		want string
	}{
		"nothing at all": {
			places{debian: empty},
			"/usr/bin/java",
			"zktest: no ZooKeeper here: install it (Debian: apt-get install libzookeeper-java default-jre-headless), or set ZOOKEEPER_HOME to an unpacked Apache release",
		},
		"no release": {
			places{zookeeper: empty, debian: debian},
			"/usr/bin/java",
			`zktest: ZOOKEEPER_HOME is "` + empty + `", but neither there nor in its lib is a zookeeper-*.jar: unpack an Apache release there, or unset it and install it (Debian: apt-get install libzookeeper-java default-jre-headless)`,
		},
		"no java": {
			places{debian: debian},
			"",
			"zktest: no java in PATH: install a Java runtime (Debian: apt-get install default-jre-headless) or set JAVA_HOME",
		},
		"no java home": {
			places{debian: debian, java: empty},
			"/usr/bin/java",
			`zktest: JAVA_HOME is "` + empty + `", but there is no program bin/java: set it to a Java runtime or unset it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.lookPath = inPath(c.java)

			_, _, err := find(c.in)

			require.EqualError(t, err, c.want)
		})
	}
}

// A release names its jars by version and has them all in one folder.
func TestServerOfAReleaseStarts(t *testing.T) {
	_, classpath, err := Find()
	require.NoError(t, err)
	if os.Getenv("ZOOKEEPER_HOME") == "" {
		home := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(home, "lib"), 0o700))
		for _, jar := range filepath.SplitList(classpath) {
			name := strings.Replace(filepath.Base(jar), "zookeeper.jar", "zookeeper-3.8.0.jar", 1)
			require.NoError(t, os.Symlink(jar, filepath.Join(home, "lib", name)))
		}
		t.Setenv("ZOOKEEPER_HOME", home)
	}

	e := New(t, nil)

	assert.Contains(t, e.classpath, os.Getenv("ZOOKEEPER_HOME"))
	_, _, err = e.Client(t).Get("/")
	require.NoError(t, err)
}
