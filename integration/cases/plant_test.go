package cases

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// buildAttacks compiles the programs of the group's folder zzsec, with the rig's ports.
func (r *rig) buildAttacks(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		source := r.writeFile(t, name+".go", attackPort.ReplaceAllStringFunc(string(r.readFile(t, "zzsec/"+name+"/main.go")), func(s string) string {
			n, _ := strconv.Atoi(s)
			return strconv.Itoa(portOf(22140 + n - 24840))
		}))
		r.build(t, name, "./zzsec/"+name, "zzsec/"+name+"/main.go", source)
	}
}

var attackPort = regexp.MustCompile(`\b2484[0-9]\b`)

// trainMachine trains a model with the channels of the attacks.
func (r *rig) trainMachine(t *testing.T) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	csv := "stream,seq,horizontal,vertical,axial,label\n"
	for i := range 640 {
		label, mean := "lo", -1.0
		if i/4%2 == 1 {
			label, mean = "hi", 1
		}
		csv += fmt.Sprintf("s%d,%d,%.3f,%.3f,%.3f,%s\n", i/80, i%80, mean+.2*rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64(), label)
	}
	r.writeFile(t, "machine.csv", csv)
	r.mustRun(t, "import", "machine.csv", "--output", "machine.parquet")
	r.mustRun(t, "train", "machine.parquet", "--bank", "tiny", "--policy", "count", "--length", "4", "--output", "machine.safetensors")
}

// limitFiles returns the command line of the program with a limit of open files.
func (r *rig) limitFiles(files int, args ...string) []string {
	return append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "bash", r.program}, args...)
}

// makeSecure creates certificates and users, and a configuration with them. more is
// additional YAML.
func (r *rig) makeSecure(t *testing.T, name string, nats, metrics int, more string) (conf string) {
	t.Helper()
	dir := r.pathOf(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.mustRun(t, "secure", "init", "--host", "localhost", "--host", "127.0.0.1", name+"/full.yaml")
	env, _ := filepath.Glob(filepath.Join(dir, "eusn-secure", "*.env"))
	for _, f := range env {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "localhost:4222", fmt.Sprintf("localhost:%d", portOf(nats)))
		text = strings.ReplaceAll(text, "=eusn-secure/", "="+dir+"/eusn-secure/")
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r.writeFile(t, name+"/eusn.yaml", fmt.Sprintf(`model: %[1]s
server: {dir: %[2]s/data, listen: 127.0.0.1, port: %[3]d, tls: {cert: %[2]s/eusn-secure/server.pem, key: %[2]s/eusn-secure/server.key}, users: %[2]s/eusn-secure/users}
metrics: {listen: "%[4]s", users: %[2]s/eusn-secure/metrics.users, token_file: %[2]s/eusn-secure/metrics.token, tls: {cert: %[2]s/eusn-secure/server.pem, key: %[2]s/eusn-secure/server.key}}
%[5]s`, r.pathOf("machine.safetensors"), dir, portOf(nats), addressOf(metrics), more))
}

// startAs starts the program with the login of a role.
func (r *rig) startAs(t *testing.T, name, role string, args ...string) *process {
	t.Helper()
	return r.start(t, "bash", append([]string{"-c", `set -a; . "$1"; shift; exec "$@"`, "bash", r.pathOf(name + "/eusn-secure/" + role + ".env"), r.program}, args...)...)
}

// memoryOf returns the resident memory of a process, in MB.
func (p *process) memoryOf() int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if f := strings.Fields(s.Text()); f[0] == "VmRSS:" {
			kb, _ := strconv.Atoi(f[1])
			return kb >> 10
		}
	}
	return 0
}

// runCurl returns the code and text of an answer.
func runCurl(args ...string) string {
	out, _ := exec.Command("curl", append([]string{"-s", "-k", "-m", "10", "-w", "\n%{http_code}"}, args...)...).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[len(lines)-1] + " " + strings.Join(lines[:len(lines)-1], " "))
}

// awaitTrue waits until ok returns true.
func awaitTrue(within time.Duration, so func() bool) bool {
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		if so() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
