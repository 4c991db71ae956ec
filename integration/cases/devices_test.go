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

// deviceReports are fieldbus servers, and a receiver of alarms.
func (r *rig) deviceReports() []report {
	return []report{
		{"A06", "missing values instead of -32768, 65535, 4294967295 (a setting)", func(t *testing.T) outcome {
			r.startModbus(t)
			name := r.copyInput(t, "A06-modbus-sentinel.yaml")
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			r.writeFile(t, filepath.Base(name), regexp.MustCompile(`:u?int16\b`).ReplaceAllString(string(text), "$0 without sunspec"))
			g := r.start(t, r.program, "gateway", "-c", name, "--metrics-listen", addressOf(22160))
			if !g.awaitText("Ctrl-C stops", patience) {
				return newOutcome(false, "%s", lastLine(g.output()))
			}
			time.Sleep(3 * time.Second)
			got := formatSamples(r.recordedSamples(t, "inv", "c0", "c1"))
			counted := runCurl("http://" + addressOf(22160) + "/metrics")
			taken := regexp.MustCompile(`eusn_gateway_samples_total (\d+)`).FindStringSubmatch(counted)
			return newOutcome(!slices.Contains(got, "-32768,65535") && taken != nil && taken[1] != "0", "stored %v, taken %q", got, taken)
		}},
		{"A07", "gateway.modbus.unit: 010 is unit 10, or refused", func(t *testing.T) outcome {
			server := r.startModbus(t)
			g := r.start(t, r.program, "gateway", "-c", r.copyInput(t, "A07-leading-zero.yaml"))
			server.awaitText("unit", patience/3)
			code, ended := g.hasEnded()
			unit := regexp.MustCompile(`unit \d+`).FindString(server.output())
			refused := ended && code == 3 && strings.Contains(g.output(), "010") // for the number, not for a key
			return newOutcome(unit == "unit 10" || refused, "%s, the gateway ended: %v with %d: %s", unit, ended, code, g.output())
		}},
		{"A08", "values before the first are no sample: only 1.6,2.5", func(t *testing.T) outcome {
			r.startOPCUA(t, "A08-opcua-server.mjs", 22140, "waiting")
			r.startUntil(t, "Ctrl-C stops", "gateway", "-c", r.copyInput(t, "A08-opcua.yaml"))
			time.Sleep(2 * time.Second)
			for _, line := range []string{"X 1.5", "Y 2.5", "X 1.6"} {
				setNode(t, 22141, line)
				time.Sleep(time.Second)
			}
			time.Sleep(time.Second)
			got := formatSamples(r.recordedSamples(t, "press", "c0", "c1"))
			return newOutcome(slices.Equal(got, []string{"1.6,2.5"}), "%v", got)
		}},
		{"A24", "the log reports that the server samples every 2 s instead of 10 ms", func(t *testing.T) outcome {
			r.startOPCUA(t, "A24-opcua-slow-server.mjs", 22142, "good")
			g := r.startUntil(t, "Ctrl-C stops", "gateway", "-c", r.copyInput(t, "A24-opcua.yaml"))
			time.Sleep(4 * time.Second)
			return newOutcome(regexp.MustCompile(`(?i)sampl.*\b(2s|2 s|2000)`).MatchString(g.output()), "%s", g.output())
		}},
		{"A28", "the second try is 7 s after the first, as Retry-After requires", func(t *testing.T) outcome {
			os.Remove(r.pathOf("hook.log"))
			r.start(t, "python3", r.copyInput(t, "A28-hook.py"), strconv.Itoa(portOf(22150)))
			r.startUntil(t, "alarms", "alarms", "run", "-c", r.copyInput(t, "A28-alarms.yaml"))
			r.writeFile(t, "hi.json", `{"c0":[1,1,1,1],"c1":[-1,-1,-1,-1]}`)
			body := r.pathOf("hi.json")
			for range 3 {
				r.execute(patience, "curl", "-s", "--data-binary", "@"+body, "http://"+addressOf(22111)+"/v1/sensors/alarming")
			}
			var tries []float64
			for end := time.Now().Add(patience); len(tries) < 2 && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				tries = nil
				log, _ := os.ReadFile(r.pathOf("hook.log"))
				for line := range strings.Lines(string(log)) {
					if at, err := strconv.ParseFloat(strings.Fields(line)[0], 64); err == nil && strings.Contains(line, "POST") {
						tries = append(tries, at)
					}
				}
			}
			if len(tries) < 2 {
				return newOutcome(false, "%d tries", len(tries))
			}
			return newOutcome(tries[1]-tries[0] >= 6.9, "%.2f s", tries[1]-tries[0])
		}},
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func (r *rig) startModbus(t *testing.T) *process {
	t.Helper()
	p := r.start(t, "python3", "-u", r.copyInput(t, "A06-modbus-sentinel.py"), strconv.Itoa(portOf(22179)))
	r.awaitPort(t, portOf(22179))
	return p
}

// startOPCUA starts an OPC UA server, npm's node-opcua-server.
func (r *rig) startOPCUA(t *testing.T, script string, at int, mode string) {
	t.Helper()
	const folder = "internal/cli/live/testdata/fieldbus"
	modules, err := filepath.Abs(filepath.Join(parts.RequireModule(t, "fieldbus", folder, "node-opcua-server", " --omit=optional --ignore-scripts"), "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	os.Symlink(modules, r.pathOf("node_modules"))
	p := r.start(t, "node", r.copyInput(t, script), strconv.Itoa(portOf(at)), mode)
	if !p.awaitText("at ", patience) {
		t.Fatalf("node %s: %s", script, p.output())
	}
}

// setNode sets a variable of the server.
func setNode(t *testing.T, at int, line string) {
	t.Helper()
	c, err := net.Dial("tcp", addressOf(at))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, line)
	c.SetDeadline(time.Now().Add(patience))
	if output, _ := bufio.NewReader(c).ReadString('\n'); output != "ok\n" {
		t.Fatalf("%s: %s", line, output)
	}
}

// awaitPort returns when a server listens on the port.
func (r *rig) awaitPort(t *testing.T, port int) {
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
