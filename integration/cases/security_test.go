package cases

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecurityCases runs an attacker's programs against a job.
func TestSecurityCases(t *testing.T) {
	r := newRig(t, "security-3")
	r.trainMachine(t)
	r.buildAttacks(t, "attack", "conns", "mqtt", "opcmitm", "pq", "sniff", "subs", "variant")
	for _, c := range slices.Concat(r.openReports(), r.loginReports(), r.fileReports()) {
		recordCase(t, c.name, c.must, c.run)
	}
}

// startOpen starts a stage without logins, with a limit of files, and its metrics.
func (r *rig) startOpen(t *testing.T, name string, files int) *process {
	t.Helper()
	p := r.start(t, "bash", r.limitFiles(files, "run", "--model", "machine.safetensors", "--port", strconv.Itoa(portOf(22200)), "--dir", "data-"+name, "--metrics-listen", addressOf(22264))...)
	if !p.awaitText("stage is reading", patience) {
		t.Fatalf("the stage did not start: %s", p.output())
	}
	return p
}

func (r *rig) openGateway(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return r.startUntil(t, "Ctrl-C stops", append([]string{"gateway", "--model", "machine.safetensors", "--nats-url", "nats://" + addressOf(22200),
		"--http-listen", addressOf(22280), "--mqtt-listen", addressOf(22283), "--tcp-listen", addressOf(22281), "--metrics-listen", addressOf(22265), "--outbox", "outbox-" + name}, args...)...)
}

const machineSample = `{"horizontal":1,"vertical":1,"axial":1}`

// openReports are local attacks on a job without logins.
func (r *rig) openReports() []report {
	return []report{
		{"S01 metrics connections", "the stage has files left, and works on", func(t *testing.T) outcome {
			return r.manyConnections(t, "conns", 22264, "-req", `GET /nope HTTP/1.1\r\nHost: x\r\n\r\n`)
		}},
		{"S01 NATS connections", "the stage has files left, and works on", func(t *testing.T) outcome {
			return r.manyConnections(t, "idle", 22200)
		}},
		{"S02 exit code", "a crash ends with a code after which every unit restarts", func(t *testing.T) outcome {
			p := r.startUntil(t, "stage is reading", "run", "--model", "machine.safetensors", "--port", strconv.Itoa(portOf(22200)), "--dir", "data-abrt")
			p.cmd.Process.Signal(syscall.SIGABRT)
			<-p.done
			code := p.cmd.ProcessState.ExitCode()
			refusing := ""
			units, _ := filepath.Glob("../../configs/systemd/*.service")
			for _, u := range units {
				b, _ := os.ReadFile(u)
				for _, m := range regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindAllStringSubmatch(string(b), -1) {
					if slices.Contains(strings.Fields(m[1]), strconv.Itoa(code)) {
						refusing += filepath.Base(u) + " "
					}
				}
			}
			return newOutcome(len(units) > 0 && refusing == "", "code %d after SIGABRT, not restarted by %q", code, refusing)
		}},
		{"S05 MQTT sessions", "at most 100 MB for 5,000 sessions of long names", func(t *testing.T) outcome {
			return r.mqttMemory(t, "sessions", 100, "-n", "5000", "-idlen", "60000")
		}},
		{"S05 topic aliases", "at most 100 MB for 6,000 aliases of long topics", func(t *testing.T) outcome {
			return r.mqttMemory(t, "aliases", 100, "-n", "6000", "-idlen", "60000")
		}},
		{"S06 new streams", "at most 500 MB for 40,000 new streams of one sample", func(t *testing.T) outcome {
			p := r.startOpen(t, "streams", 20000)
			before := p.memoryOf()
			r.openGateway(t, "streams")
			out, _ := r.execute(5*time.Minute, r.pathOf("mqtt"), "-addr", addressOf(22283), "-what", "topics", "-n", "40000")
			time.Sleep(5 * time.Second)
			grown := p.memoryOf() - before
			return newOutcome(grown < 500, "the stage grew by %d MB | %s", grown, shorten(out))
		}},
		{"S07 WebSocket", "server.websocket refuses a page of another origin, or does not start without users", func(t *testing.T) outcome {
			conf := r.writeFile(t, "websocket.yaml", fmt.Sprintf("model: machine.safetensors\nserver: {dir: data-ws, port: %d, websocket: %q}\n", portOf(22200), addressOf(22223)))
			p := r.start(t, r.program, "run", "-c", conf)
			if !p.awaitText("stage is reading", patience) {
				code, _ := p.hasEnded()
				return newOutcome(code == 3, "code %d: %s", code, lastLine(p.output()))
			}
			output := runCurl("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "-H", "Origin: http://evil.example", "-m", "2", "http://"+addressOf(22223)+"/")
			return newOutcome(strings.HasPrefix(output, "4"), "%s", output)
		}},
		{"S08 OPC UA", "the gateway survives an answer that announces 2^31-1 texts", func(t *testing.T) outcome {
			r.startOpen(t, "opc", 20000)
			server := r.start(t, r.pathOf("opcmitm"), "opn")
			if !server.awaitText("ready", patience) {
				t.Fatal(server.output())
			}
			conf := r.writeFile(t, "opc.yaml", fmt.Sprintf("nats: {url: \"nats://%s\"}\nmodel: machine.safetensors\ngateway: {outbox: outbox-opc3, opcua: {url: \"opc.tcp://%s\", nodes: {p/horizontal: ns=1;s=X, p/vertical: ns=1;s=X, p/axial: ns=1;s=X}}, http: %q}\n", addressOf(22200), addressOf(22142), addressOf(22280)))
			p := r.start(t, r.program, "gateway", "-c", conf)
			server.awaitText("patched", patience)
			time.Sleep(5 * time.Second)
			code, ended := p.hasEnded()
			output := runCurl("--data", machineSample, "http://"+addressOf(22280)+"/v1/sensors/beside")
			return newOutcome(!ended && strings.HasPrefix(output, "204") && strings.Contains(server.output(), "patched"), "ended %v with %d, HTTP %s, %s | %s", ended, code, output, lastLine(server.output()), lastLine(p.output()))
		}},
		{"S11 foreign pages", "a POST of another origin and an unknown Host are refused, a TCP line that is HTTP ends the connection", func(t *testing.T) outcome {
			r.startOpen(t, "pages", 20000)
			r.openGateway(t, "pages")
			url := "http://" + addressOf(22280) + "/v1/sensors/page"
			foreign := runCurl("-H", "Origin: http://evil.example", "-H", "Content-Type: text/plain", "--data", machineSample, url)
			site := runCurl("-H", "Sec-Fetch-Site: cross-site", "-H", "Content-Type: text/plain", "--data", machineSample, url)
			host := runCurl("-H", "Host: evil.example", "--data", machineSample, url)
			page := runCurl("-H", "Host: evil.example", "http://"+addressOf(22264)+"/page/state")
			metrics := runCurl("-H", "Host: evil.example", "http://"+addressOf(22265)+"/metrics")
			own := runCurl("--data", machineSample, url)
			lines := httpToLines(t, addressOf(22281))
			refused := true
			for _, s := range []string{foreign, site, host, page, metrics} {
				refused = refused && strings.HasPrefix(s, "4")
			}
			return newOutcome(refused && strings.HasPrefix(own, "204") && lines, "origin %.30s, cross-site %.30s, host %.30s, page %.30s, metrics %.30s, own %.30s, lines end %v", foreign, site, host, page, metrics, own, lines)
		}},
		{"S12 slow bodies", "1,100 half-sent POSTs do not stop other devices", func(t *testing.T) outcome {
			r.startOpen(t, "slow", 20000)
			r.openGateway(t, "slow")
			for range 1100 {
				c, err := net.Dial("tcp", addressOf(22280))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, "POST /v1/sensors/slow HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
			}
			time.Sleep(500 * time.Millisecond)
			output := runCurl("--interface", "127.0.0.2", "--data", machineSample, "http://"+addressOf(22280)+"/v1/sensors/other")
			return newOutcome(strings.HasPrefix(output, "204"), "%s", output)
		}},
		{"S14 metrics beyond the machine", "refused without TLS and a login (code 3)", func(t *testing.T) outcome {
			p := r.start(t, r.program, "run", "--model", "machine.safetensors", "--port", strconv.Itoa(portOf(22200)), "--dir", "data-metrics", "--metrics-listen", fmt.Sprintf("0.0.0.0:%d", portOf(22264)))
			p.awaitText("stage is reading", patience/3)
			code, ended := p.hasEnded()
			return newOutcome(ended && code == 3, "ended %v, code %d: %s", ended, code, lastLine(p.output()))
		}},
	}
}

// manyConnections holds more connections than the stage's limit of files.
func (r *rig) manyConnections(t *testing.T, name string, at int, more ...string) outcome {
	t.Helper()
	const files = 20000
	p := r.startOpen(t, name, files)
	args := append([]string{"-addr", addressOf(at), "-hold", "10s", "-n", "11000", "-pid", strconv.Itoa(p.cmd.Process.Pid)}, more...)
	other := r.start(t, r.pathOf("conns"), args...)
	out, _ := r.execute(4*time.Minute, r.pathOf("conns"), args...)
	<-other.done
	most := 0
	for _, m := range regexp.MustCompile(`held: .* fds (\d+)`).FindAllStringSubmatch(out+other.output(), -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	ready := awaitTrue(patience, func() bool { return strings.HasPrefix(runCurl("http://"+addressOf(22264)+"/readyz"), "200") })
	exhausted := firstLineOf(p.output(), "too many open files")
	return newOutcome(ready && exhausted == "" && most > 0 && most < files*9/10, "ready %v, %d files of %d, %s | %s", ready, most, files, exhausted, shorten(out))
}

func firstLineOf(log, text string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// mqttMemory attacks the gateway's broker and requires its memory to stay below a limit.
func (r *rig) mqttMemory(t *testing.T, what string, most int, args ...string) outcome {
	t.Helper()
	r.startOpen(t, what, 20000)
	g := r.openGateway(t, what)
	before, grown := g.memoryOf(), 0
	attack := r.start(t, r.pathOf("mqtt"), append([]string{"-addr", addressOf(22283), "-what", what}, args...)...)
	awaitTrue(3*time.Minute, func() bool {
		grown = max(grown, g.memoryOf()-before)
		_, ended := attack.hasEnded()
		return ended
	})
	_, ended := g.hasEnded()
	output := runCurl("--data", machineSample, "http://"+addressOf(22280)+"/v1/sensors/after")
	return newOutcome(grown < most && !ended && strings.HasPrefix(output, "204"), "the gateway grew by %d MB at most, then HTTP %s | %s", grown, output, shorten(attack.output()))
}

// httpToLines posts to the listener of lines, and reports whether the connection ends
// before the whole body was read.
func httpToLines(t *testing.T, at string) bool {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q, _ := http.NewRequest("POST", "http://"+at+"/", strings.NewReader("m,stream_id=web horizontal=1,vertical=1,axial=1\n"))
	q.Write(c)
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err = bufio.NewReader(c).ReadByte()
	timeout, _ := err.(net.Error)
	return err != nil && (timeout == nil || !timeout.Timeout())
}
