package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
)

// understood checks that a command line is valid. It runs it until it fails because the
// command does not exist on this machine: after all arguments were checked, and before
// a request is sent.
func understood(t *testing.T, command string, args ...string) {
	t.Helper()
	code, text := call(t, args...)
	assert.Equal(t, 127, code, "%v", args)
	assert.Equal(t, "fairlock: "+command+": command not found\n", text)
}

// reachable checks that the variables of env name a service without a warning.
func reachable(t *testing.T, env map[string]string) {
	t.Helper()
	env["FAIRLOCK_PASSWORD_FILE"] = "" // the file does not exist here
	if env["FAIRLOCK_USER"] != "" {
		env["FAIRLOCK_PASSWORD"] = "x"
	}
	flags := connect.Flags{Getenv: func(name string) string { return env[name] }}
	target, err := flags.Target()
	require.NoError(t, err)
	assert.Empty(t, target.Warnings)
	assert.NotEmpty(t, target.Address.Hosts)
}

// example returns the text of a file in examples/ops.
func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "ops", name))
	require.NoError(t, err)
	return string(text)
}

// settings returns the variables that a unit or a crontab sets.
func settings(text, prefix string) map[string]string {
	env := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^`+prefix+`([A-Z_]+)=(.*)$`).FindAllStringSubmatch(text, -1) {
		env[m[1]] = m[2]
	}
	return env
}

func TestTheSystemdUnitOfTheExampleIsValid(t *testing.T) {
	unit := example(t, "backup.service")
	found := regexp.MustCompile(`(?m)^ExecStart=/bin/sh -c 'exec /usr/local/bin/(fairlock .*)'$`).FindStringSubmatch(unit)
	require.NotNil(t, found)
	assert.NotRegexp(t, `[^%]%[^%]`, found[1], "systemd replaces that")

	args := ofScript(t, strings.ReplaceAll(found[1], `%%`, `%`))

	understood(t, args[len(args)-1], args...)
	assert.Regexp(t, `^\d{4}-\d\d-\d\d$`, args[slices.Index(args, "--once")+1])
	reachable(t, settings(unit, "Environment="))
}

// ofScript returns the arguments with which a script calls fairlock.
func ofScript(t *testing.T, script string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `fairlock() { printf '%s\n' "$@"; }; `+script).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func TestTheCrontabOfTheExampleIsValid(t *testing.T) {
	text := example(t, "crontab")
	jobs := regexp.MustCompile(`(?m)^(\S+ +){5}(fairlock .*)$`).FindAllStringSubmatch(text, -1)
	require.Len(t, jobs, 2)
	reachable(t, settings(text, ""))
	for _, job := range jobs {
		assert.NotRegexp(t, `[^\\]%`, job[2], "cron ends the command there")

		args := ofScript(t, strings.ReplaceAll(job[2], `\%`, `%`))

		understood(t, args[len(args)-1], args...)
		if i := slices.Index(args, "--once"); i >= 0 {
			assert.Regexp(t, `^\d{4}-\d\d-\d\d$`, args[i+1])
		}
	}
}

// cronJob has the fields of a Kubernetes CronJob that the example uses. Any other field
// in the file is a mistake, here or there.
type cronJob struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Schedule          string `json:"schedule"`
		ConcurrencyPolicy string `json:"concurrencyPolicy"`
		JobTemplate       struct {
			Spec struct {
				BackoffLimit int `json:"backoffLimit"`
				Template     struct {
					Spec podSpec `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

type podSpec struct {
	RestartPolicy                 string `json:"restartPolicy"`
	TerminationGracePeriodSeconds int    `json:"terminationGracePeriodSeconds"`
	Containers                    []struct {
		Name    string   `json:"name"`
		Image   string   `json:"image"`
		Command []string `json:"command"`
		Env     []struct {
			Name      string `json:"name"`
			Value     string `json:"value,omitempty"`
			ValueFrom struct {
				FieldRef struct {
					FieldPath string `json:"fieldPath"`
				} `json:"fieldRef"`
			} `json:"valueFrom,omitzero"`
		} `json:"env"`
		VolumeMounts []struct {
			Name      string `json:"name"`
			MountPath string `json:"mountPath"`
			ReadOnly  bool   `json:"readOnly"`
		} `json:"volumeMounts"`
	} `json:"containers"`
	Volumes []struct {
		Name   string `json:"name"`
		Secret struct {
			SecretName string `json:"secretName"`
		} `json:"secret"`
	} `json:"volumes"`
}

func TestTheCronJobOfTheExampleIsValid(t *testing.T) {
	var job cronJob
	text := []byte(example(t, "cronjob.yaml"))
	require.NoError(t, yaml.UnmarshalStrict(text, &job))
	written, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	read, err := json.Marshal(job)
	require.NoError(t, err)
	assert.JSONEq(t, string(written), string(read), "Kubernetes compares keys case-sensitively, UnmarshalStrict does not")
	assert.Equal(t, []string{"batch/v1", "CronJob", "Forbid"}, []string{job.APIVersion, job.Kind, job.Spec.ConcurrencyPolicy})
	assert.Len(t, strings.Fields(job.Spec.Schedule), 5)
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	assert.Equal(t, "Never", pod.RestartPolicy)
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]

	require.Equal(t, "fairlock", c.Command[0])
	understood(t, "/app/report", c.Command[1:]...)
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.Value == "" {
			assert.NotEmpty(t, e.ValueFrom.FieldRef.FieldPath)
		}
	}
	for _, used := range regexp.MustCompile(`\$\((\w+)\)`).FindAllStringSubmatch(strings.Join(c.Command, " "), -1) {
		assert.Contains(t, env, used[1])
	}
	files := []string{env["FAIRLOCK_PASSWORD_FILE"], strings.SplitAfter(env["FAIRLOCK_ON"], "ca=")[1]}
	reachable(t, env)
	require.Len(t, c.VolumeMounts, 1)
	assert.Equal(t, c.VolumeMounts[0].Name, pod.Volumes[0].Name)
	for _, f := range files {
		assert.True(t, strings.HasPrefix(f, c.VolumeMounts[0].MountPath+"/"), f)
	}
}

// section returns a section of the README.
func section(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, part, ok := strings.Cut(string(text), "\n## "+title+"\n")
	require.True(t, ok)
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

func TestTheFirstFiveLinesOfTheReadmeAreValid(t *testing.T) {
	_, block, _ := strings.Cut(section(t, "The command line"), "```\n")
	block, _, _ = strings.Cut(block, "```")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	require.Len(t, lines, 5)
	assert.Equal(t, "go install github.com/fairlock/fairlock/cmd/fairlock@latest", lines[0])
	reachable(t, settings(strings.TrimSpace(strings.SplitN(lines[1], "#", 2)[0]), "export "))
	for _, line := range lines[2:] {
		line, _, _ = strings.Cut(line, "#")
		args := strings.Fields(line)
		require.Equal(t, "fairlock", args[0])
		if args[1] == "run" {
			understood(t, "./backup.sh", args[1:]...)
			continue
		}
		code, _ := call(t, append([]string{"--on", "mem://"}, args[1:]...)...)
		assert.Equal(t, 1, code, "the queue is empty")
	}
}
