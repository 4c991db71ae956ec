package cases

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// deviceReports are servers of field buses, and a receiver of alarms.
func (r *rig) deviceReports() []report {
	return []report{
		{"A06", "missing values instead of -32768, 65535, 4294967295 (a setting)", func(t *testing.T) outcome {
			r.modbus(t)
			name := r.input(t, "A06-modbus-sentinel.yaml")
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			r.write(t, filepath.Base(name), regexp.MustCompile(`:u?int16\b`).ReplaceAllString(string(text), "$0 without sunspec"))
			g := r.start(t, r.program, "gateway", "-c", name, "--metrics", address(22160))
			if !g.await("Ctrl-C stops", patience) {
				return held(false, "%s", lastLine(g.log()))
			}
			time.Sleep(3 * time.Second)
			got := texts(r.recorded(t, "inv", "c0", "c1"))
			counted := curl("http://" + address(22160) + "/metrics")
			taken := regexp.MustCompile(`eusn_gateway_samples_total (\d+)`).FindStringSubmatch(counted)
			return held(!slices.Contains(got, "-32768,65535") && taken != nil && taken[1] != "0", "stored %v, taken %q", got, taken)
		}},
		{"A07", "gateway.modbus.unit: 010 is unit 10, or refused", func(t *testing.T) outcome {
			server := r.modbus(t)
			g := r.start(t, r.program, "gateway", "-c", r.input(t, "A07-leading-zero.yaml"))
			server.await("unit", patience/3)
			code, ended := g.ended()
			unit := regexp.MustCompile(`unit \d+`).FindString(server.log())
			refused := ended && code == 3 && strings.Contains(g.log(), "010") // for the number, not for a key
			return held(unit == "unit 10" || refused, "%s, the gateway ended: %v with %d: %s", unit, ended, code, g.log())
		}},
		{"A08", "values before the first are no sample: 1.6,2.5 alone", func(t *testing.T) outcome {
			r.opcua(t, "A08-opcua-server.mjs", 22140, "waiting")
			r.startUntil(t, "Ctrl-C stops", "gateway", "-c", r.input(t, "A08-opcua.yaml"))
			time.Sleep(2 * time.Second)
			for _, line := range []string{"X 1.5", "Y 2.5", "X 1.6"} {
				setNode(t, 22141, line)
				time.Sleep(time.Second)
			}
			time.Sleep(time.Second)
			got := texts(r.recorded(t, "press", "c0", "c1"))
			return held(slices.Equal(got, []string{"1.6,2.5"}), "%v", got)
		}},
		{"A24", "the log tells that the server samples every 2 s instead of 10 ms", func(t *testing.T) outcome {
			r.opcua(t, "A24-opcua-slow-server.mjs", 22142, "good")
			g := r.startUntil(t, "Ctrl-C stops", "gateway", "-c", r.input(t, "A24-opcua.yaml"))
			time.Sleep(4 * time.Second)
			return held(regexp.MustCompile(`(?i)sampl.*\b(2s|2 s|2000)`).MatchString(g.log()), "%s", g.log())
		}},
		{"A28", "the second try is 7 s after the first, as Retry-After says", func(t *testing.T) outcome {
			os.Remove(r.path("hook.log"))
			r.start(t, "python3", r.input(t, "A28-hook.py"), strconv.Itoa(port(22150)))
			r.startUntil(t, "alarms", "alarms", "run", "-c", r.input(t, "A28-alarms.yaml"))
			r.write(t, "hi.json", `{"c0":[1,1,1,1],"c1":[-1,-1,-1,-1]}`)
			body := r.path("hi.json")
			for range 3 {
				r.execute(patience, "curl", "-s", "--data-binary", "@"+body, "http://"+address(22111)+"/v1/sensors/alarming")
			}
			var tries []float64
			for end := time.Now().Add(patience); len(tries) < 2 && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				tries = nil
				log, _ := os.ReadFile(r.path("hook.log"))
				for line := range strings.Lines(string(log)) {
					if at, err := strconv.ParseFloat(strings.Fields(line)[0], 64); err == nil && strings.Contains(line, "POST") {
						tries = append(tries, at)
					}
				}
			}
			if len(tries) < 2 {
				return held(false, "%d tries", len(tries))
			}
			return held(tries[1]-tries[0] >= 6.9, "%.2f s", tries[1]-tries[0])
		}},
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func (r *rig) modbus(t *testing.T) *process {
	t.Helper()
	p := r.start(t, "python3", "-u", r.input(t, "A06-modbus-sentinel.py"), strconv.Itoa(port(22179)))
	r.listens(t, port(22179))
	return p
}

// opcua starts a server of OPC UA, of npm's node-opcua-server.
func (r *rig) opcua(t *testing.T, script string, at int, mode string) {
	t.Helper()
	const folder = "internal/cli/live/testdata/fieldbus"
	modules, err := filepath.Abs(filepath.Join(parts.RequireModule(t, "fieldbus", folder, "node-opcua-server", " --omit=optional --ignore-scripts"), "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	os.Symlink(modules, r.path("node_modules"))
	p := r.start(t, "node", r.input(t, script), strconv.Itoa(port(at)), mode)
	if !p.await("at ", patience) {
		t.Fatalf("node %s: %s", script, p.log())
	}
}

// setNode sets a variable of the server.
func setNode(t *testing.T, at int, line string) {
	t.Helper()
	c, err := net.Dial("tcp", address(at))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, line)
	c.SetDeadline(time.Now().Add(patience))
	if said, _ := bufio.NewReader(c).ReadString('\n'); said != "ok\n" {
		t.Fatalf("%s: %s", line, said)
	}
}

// listens returns when something listens on a port.
func (r *rig) listens(t *testing.T, port int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
