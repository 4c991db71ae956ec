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

// TestSecurityCases lets the programs of an attacker work against a job.
func TestSecurityCases(t *testing.T) {
	r := newRig(t, "security-3")
	r.machine(t)
	r.buildAttacks(t, "attack", "conns", "mqtt", "opcmitm", "pq", "sniff", "subs", "variant")
	for _, c := range slices.Concat(r.openReports(), r.loginReports(), r.fileReports()) {
		record(t, c.name, c.must, c.run)
	}
}

// open starts a stage without logins, with a limit of files, and its metrics.
func (r *rig) open(t *testing.T, name string, files int) *process {
	t.Helper()
	p := r.start(t, "bash", r.limited(files, "run", "--model", "machine.safetensors", "--port", strconv.Itoa(port(22200)), "--dir", "data-"+name, "--metrics", address(22264))...)
	if !p.await("stage is reading", patience) {
		t.Fatalf("the stage did not start: %s", p.log())
	}
	return p
}

func (r *rig) openGateway(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return r.startUntil(t, "Ctrl-C stops", append([]string{"gateway", "--model", "machine.safetensors", "--nats-url", "nats://" + address(22200),
		"--http-listen", address(22280), "--mqtt-listen", address(22283), "--tcp-listen", address(22281), "--metrics", address(22265), "--outbox", "outbox-" + name}, args...)...)
}

const machineSample = `{"horizontal":1,"vertical":1,"axial":1}`

// openReports are attacks on a job without logins, from the same machine.
func (r *rig) openReports() []report {
	return []report{
		{"S01 metrics connections", "the stage has files left, and works on", func(t *testing.T) outcome {
			return r.manyConnections(t, "conns", 22264, "-req", `GET /nope HTTP/1.1\r\nHost: x\r\n\r\n`)
		}},
		{"S01 NATS connections", "the stage has files left, and works on", func(t *testing.T) outcome {
			return r.manyConnections(t, "idle", 22200)
		}},
		{"S02 exit code", "a crash ends with a code after which every unit starts again", func(t *testing.T) outcome {
			p := r.startUntil(t, "stage is reading", "run", "--model", "machine.safetensors", "--port", strconv.Itoa(port(22200)), "--dir", "data-abrt")
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
			return held(len(units) > 0 && refusing == "", "code %d after SIGABRT, not started again by %q", code, refusing)
		}},
		{"S05 MQTT sessions", "at most 100 MB for 5,000 sessions of long names", func(t *testing.T) outcome {
			return r.mqttMemory(t, "sessions", 100, "-n", "5000", "-idlen", "60000")
		}},
		{"S05 topic aliases", "at most 100 MB for 6,000 aliases of long topics", func(t *testing.T) outcome {
			return r.mqttMemory(t, "aliases", 100, "-n", "6000", "-idlen", "60000")
		}},
		{"S06 new streams", "at most 500 MB for 40,000 new streams of one sample", func(t *testing.T) outcome {
			p := r.open(t, "streams", 20000)
			before := p.rss()
			r.openGateway(t, "streams")
			out, _ := r.execute(5*time.Minute, r.path("mqtt"), "-addr", address(22283), "-what", "topics", "-n", "40000")
			time.Sleep(5 * time.Second)
			grown := p.rss() - before
			return held(grown < 500, "the stage grew by %d MB | %s", grown, brief(out))
		}},
		{"S07 WebSocket", "server.websocket refuses a page of another origin, or does not start without users", func(t *testing.T) outcome {
			conf := r.write(t, "websocket.yaml", fmt.Sprintf("model: machine.safetensors\nserver: {dir: data-ws, port: %d, websocket: %q}\n", port(22200), address(22223)))
			p := r.start(t, r.program, "run", "-c", conf)
			if !p.await("stage is reading", patience) {
				code, _ := p.ended()
				return held(code == 3, "code %d: %s", code, lastLine(p.log()))
			}
			said := curl("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "-H", "Origin: http://evil.example", "-m", "2", "http://"+address(22223)+"/")
			return held(strings.HasPrefix(said, "4"), "%s", said)
		}},
		{"S08 OPC UA", "the gateway lives on after an answer that announces 2^31-1 texts", func(t *testing.T) outcome {
			r.open(t, "opc", 20000)
			server := r.start(t, r.path("opcmitm"), "opn")
			if !server.await("ready", patience) {
				t.Fatal(server.log())
			}
			conf := r.write(t, "opc.yaml", fmt.Sprintf("nats: {url: \"nats://%s\"}\nmodel: machine.safetensors\ngateway: {outbox: outbox-opc3, opcua: {url: \"opc.tcp://%s\", nodes: {p/horizontal: ns=1;s=X, p/vertical: ns=1;s=X, p/axial: ns=1;s=X}}, http: %q}\n", address(22200), address(22142), address(22280)))
			p := r.start(t, r.program, "gateway", "-c", conf)
			server.await("patched", patience)
			time.Sleep(5 * time.Second)
			code, ended := p.ended()
			said := curl("--data", machineSample, "http://"+address(22280)+"/v1/sensors/beside")
			return held(!ended && strings.HasPrefix(said, "204") && strings.Contains(server.log(), "patched"), "ended %v with %d, HTTP %s, %s | %s", ended, code, said, lastLine(server.log()), lastLine(p.log()))
		}},
		{"S11 foreign pages", "a POST of another origin and an unknown Host are refused, a TCP line that is HTTP ends the connection", func(t *testing.T) outcome {
			r.open(t, "pages", 20000)
			r.openGateway(t, "pages")
			url := "http://" + address(22280) + "/v1/sensors/page"
			foreign := curl("-H", "Origin: http://evil.example", "-H", "Content-Type: text/plain", "--data", machineSample, url)
			site := curl("-H", "Sec-Fetch-Site: cross-site", "-H", "Content-Type: text/plain", "--data", machineSample, url)
			host := curl("-H", "Host: evil.example", "--data", machineSample, url)
			page := curl("-H", "Host: evil.example", "http://"+address(22264)+"/page/state")
			metrics := curl("-H", "Host: evil.example", "http://"+address(22265)+"/metrics")
			own := curl("--data", machineSample, url)
			lines := httpToLines(t, address(22281))
			refused := true
			for _, s := range []string{foreign, site, host, page, metrics} {
				refused = refused && strings.HasPrefix(s, "4")
			}
			return held(refused && strings.HasPrefix(own, "204") && lines, "origin %.30s, cross-site %.30s, host %.30s, page %.30s, metrics %.30s, own %.30s, lines end %v", foreign, site, host, page, metrics, own, lines)
		}},
		{"S12 slow bodies", "1,100 half-sent POSTs do not stop other devices", func(t *testing.T) outcome {
			r.open(t, "slow", 20000)
			r.openGateway(t, "slow")
			for range 1100 {
				c, err := net.Dial("tcp", address(22280))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, "POST /v1/sensors/slow HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
			}
			time.Sleep(500 * time.Millisecond)
			said := curl("--interface", "127.0.0.2", "--data", machineSample, "http://"+address(22280)+"/v1/sensors/other")
			return held(strings.HasPrefix(said, "204"), "%s", said)
		}},
		{"S14 metrics beyond the machine", "refused without TLS and a login (code 3)", func(t *testing.T) outcome {
			p := r.start(t, r.program, "run", "--model", "machine.safetensors", "--port", strconv.Itoa(port(22200)), "--dir", "data-metrics", "--metrics", fmt.Sprintf("0.0.0.0:%d", port(22264)))
			p.await("stage is reading", patience/3)
			code, ended := p.ended()
			return held(ended && code == 3, "ended %v, code %d: %s", ended, code, lastLine(p.log()))
		}},
	}
}

// manyConnections holds more connections than the stage may have files.
func (r *rig) manyConnections(t *testing.T, name string, at int, more ...string) outcome {
	t.Helper()
	const files = 20000
	p := r.open(t, name, files)
	args := append([]string{"-addr", address(at), "-hold", "10s", "-n", "11000", "-pid", strconv.Itoa(p.cmd.Process.Pid)}, more...)
	other := r.start(t, r.path("conns"), args...)
	out, _ := r.execute(4*time.Minute, r.path("conns"), args...)
	<-other.done
	most := 0
	for _, m := range regexp.MustCompile(`held: .* fds (\d+)`).FindAllStringSubmatch(out+other.log(), -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	ready := eventually(patience, func() bool { return strings.HasPrefix(curl("http://"+address(22264)+"/readyz"), "200") })
	exhausted := firstLineOf(p.log(), "too many open files")
	return held(ready && exhausted == "" && most > 0 && most < files*9/10, "ready %v, %d files of %d, %s | %s", ready, most, files, exhausted, brief(out))
}

func firstLineOf(log, text string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// mqttMemory attacks the gateway's broker and wants its memory to stay below a limit.
func (r *rig) mqttMemory(t *testing.T, what string, most int, args ...string) outcome {
	t.Helper()
	r.open(t, what, 20000)
	g := r.openGateway(t, what)
	before, grown := g.rss(), 0
	attack := r.start(t, r.path("mqtt"), append([]string{"-addr", address(22283), "-what", what}, args...)...)
	eventually(3*time.Minute, func() bool {
		grown = max(grown, g.rss()-before)
		_, ended := attack.ended()
		return ended
	})
	_, ended := g.ended()
	said := curl("--data", machineSample, "http://"+address(22280)+"/v1/sensors/after")
	return held(grown < most && !ended && strings.HasPrefix(said, "204"), "the gateway grew by %d MB at most, then HTTP %s | %s", grown, said, brief(attack.log()))
}

// httpToLines posts to the listener of lines, and reports whether the connection ends
// without taking the body.
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
