package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// loginReports are attacks with the login of a role.
func (r *rig) loginReports() []report {
	started := func(t *testing.T, name string) *process {
		t.Helper()
		conf := r.makeSecure(t, name, 22222, 22224, fmt.Sprintf("alarms: {rules: {any: class hi|lo}, webhook: \"http://%s/ok\"}\n", addressOf(22250)))
		return r.startUntil(t, "stage is reading", "run", "-c", conf)
	}
	alarms := func(t *testing.T, name string) *process {
		t.Helper()
		p := r.startAs(t, name, "alarms", "alarms", "run", "-c", name+"/eusn.yaml")
		time.Sleep(3 * time.Second)
		if code, ended := p.hasEnded(); ended {
			t.Fatalf("alarms run ended with %d: %s", code, p.output())
		}
		return p
	}
	attack := func(name, role string, args ...string) string {
		out, _ := r.execute(patience, r.pathOf("attack"), append([]string{r.pathOf(name + "/eusn-secure"), role}, args...)...)
		return out
	}
	refused := func(output string) bool {
		return strings.Contains(strings.ToLower(output), "permissions violation") || strings.Contains(output, "timeout")
	}
	return []report{
		{"S03 webhook paused", "a reader may not pause, delete or change the consumers of alarms", func(t *testing.T) outcome {
			started(t, "pause")
			alarms(t, "pause")
			output := attack("pause", "reader", "$JS.API.CONSUMER.PAUSE.EUSN-ALARMS.webhook", `{"pause_until":"2099-01-01T00:00:00Z"}`) + "\n" +
				attack("pause", "reader", "$JS.API.CONSUMER.DELETE.EUSN-ALARMS.webhook", "") + "\n" +
				attack("pause", "reader", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.webhook", `{"stream_name":"EUSN-ALARMS","config":{"durable_name":"webhook","name":"webhook","filter_subject":"none","ack_policy":"explicit"}}`)
			return newOutcome(!strings.Contains(output, `"success"`) && !strings.Contains(output, "pause_until") && !strings.Contains(output, `"config"`), "%s", output)
		}},
		{"S03 alarms killed", "a consumer that delivers to alarms run does not end it", func(t *testing.T) outcome {
			started(t, "killer")
			p := alarms(t, "killer")
			r.publishAs(t, "killer", "sensor", 8)
			output := attack("killer", "reader", "$JS.API.CONSUMER.CREATE.EUSN-OUT.killer", `{"stream_name":"EUSN-OUT","config":{"durable_name":"killer","name":"killer","deliver_subject":"eusn.alarms.acknowledge","deliver_policy":"all","ack_policy":"explicit","ack_wait":1000000000,"max_deliver":-1,"replay_policy":"instant"}}`)
			time.Sleep(5 * time.Second)
			code, ended := p.hasEnded()
			return newOutcome(!ended, "ended %v with %d: %s | %s", ended, code, lastLine(p.output()), shorten(output))
		}},
		{"S04 inboxes", "with the manifests' nats.conf a sensor reads only its own inbox", func(t *testing.T) outcome {
			out := r.sniffInboxes(t)
			return newOutcome(!strings.Contains(out, "secret-machine") && !strings.Contains(out, "true"), "%s", out)
		}},
		{"S09 alarms escalate", "the role alarms may not make a NATS stream that reads the input", func(t *testing.T) outcome {
			started(t, "escalate")
			output := attack("escalate", "alarms", "$JS.API.STREAM.CREATE.EUSN-ALARMS", `{"name":"EUSN-ALARMS","subjects":["eusn.alarm.>"],"retention":"limits","storage":"file","num_replicas":1,"republish":{"src":"eusn.alarm.*.*","dest":"eusn.out.{{wildcard(2)}}"},"sources":[{"name":"EUSN-IN"}]}`)
			return newOutcome(refused(output) || strings.Contains(output, `"error"`), "%s", output)
		}},
		{"S10 certificate", "metrics show when the certificate expires", func(t *testing.T) outcome {
			conf := r.makeSecure(t, "expires", 22222, 22224, "")
			r.execute(patience, r.pathOf("variant"), r.pathOf("expires/eusn-secure"), "90s")
			p := r.startUntil(t, "stage is reading", "run", "-c", conf)
			token, err := os.ReadFile(r.pathOf("expires/eusn-secure/metrics.token"))
			if err != nil {
				t.Fatal(err)
			}
			output := runCurl("-H", "Authorization: Bearer "+strings.TrimSpace(string(token)), "https://"+addressOf(22224)+"/metrics")
			named := regexp.MustCompile(`eusn_certificate_expires_seconds\S* [-0-9.e+]+`).FindString(output)
			return newOutcome(named != "" && strings.Contains(p.output(), "certificate"), "metric %q, HTTP %.200s, log %s", named, output, firstLineOf(p.output(), "certificate"))
		}},
		{"S13 consumers", "the durable consumers of a reader leave room for tail and alarms run", func(t *testing.T) outcome {
			p := started(t, "readers")
			alarms(t, "readers")
			out, _ := r.execute(4*time.Minute, r.pathOf("subs"), r.pathOf("readers/eusn-secure"), strconv.Itoa(p.cmd.Process.Pid), "reader", "EUSN-OUT")
			r.publishAs(t, "readers", "sensor", 8)
			tail := r.startAs(t, "readers", "reader", "tail", "--since", "10m")
			got := tail.awaitText("attacked", 15*time.Second)
			return newOutcome(got, "tail prints predictions: %v: %s | %s", got, lastLine(tail.output()), shorten(out))
		}},
	}
}

// publishAs publishes samples with the login of a role.
func (r *rig) publishAs(t *testing.T, name, role string, n int) {
	t.Helper()
	env := map[string]string{}
	b, err := os.ReadFile(r.pathOf(name + "/eusn-secure/" + role + ".env"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			env[k] = v
		}
	}
	nc, err := nats.Connect(env["EUSN_NATS_URL"], nats.RootCAs(r.pathOf(name+"/eusn-secure/ca.pem")), nats.UserInfo(env["EUSN_NATS_USER"], env["EUSN_NATS_PASSWORD"]), nats.CustomInboxPrefix(env["EUSN_NATS_INBOX_PREFIX"]))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range n {
		if _, err := nc.Request("sensors.attacked", []byte(machineSample), patience); err != nil {
			t.Fatal(err)
		}
	}
}

// sniffInboxes serves the users of the manifests' nats.conf, with their rights, and
// subscribes to all inboxes as sensor.
func (r *rig) sniffInboxes(t *testing.T) string {
	t.Helper()
	r.build(t, "nats-server", "github.com/nats-io/nats-server/v2")
	conf, err := os.ReadFile("../../configs/kubernetes/nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, users, found := strings.Cut(string(conf), "\naccounts {")
	if !found {
		t.Fatal("nats.conf has no accounts")
	}
	users = strings.NewReplacer("$STAGE_PASSWORD", "s1", "$SENSOR_PASSWORD", "s2").Replace(users)
	users = regexp.MustCompile(`\$[A-Z_]+_PASSWORD`).ReplaceAllString(users, "other")
	name := r.writeFile(t, "k8s.conf", fmt.Sprintf("listen: %q\nmax_payload: 8MB\njetstream { store_dir: %q }\naccounts {%s", addressOf(22222), r.pathOf("k8s-js"), users))
	server := r.start(t, r.pathOf("nats-server"), "-c", name)
	if !server.awaitText("Server is ready", patience) {
		t.Fatal(server.output())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc, err := nats.Connect("nats://"+addressOf(22222), nats.UserInfo("stage", "s1"), nats.CustomInboxPrefix("_INBOX.stage"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	reading, err := c.Consume(func(m jetstream.Msg) { m.Ack() })
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Stop()
	out, _ := r.execute(time.Minute, r.pathOf("sniff"), "nats://"+addressOf(22222))
	return out
}

// fileReports are files that the program reads and writes.
func (r *rig) fileReports() []report {
	return []report{
		{"S19 recordings", "only their owner can read them", func(t *testing.T) outcome {
			p := r.startOpen(t, "mode", 20000)
			r.openGateway(t, "mode")
			runCurl("--data", machineSample, "http://"+addressOf(22280)+"/v1/sensors/private")
			time.Sleep(time.Second)
			r.mustRun(t, "record", "--model", "machine.safetensors", "--nats-url", "nats://"+addressOf(22200), "--output", "private", "--until", "now")
			files, _ := filepath.Glob(r.pathOf("private/*"))
			open := ""
			for _, f := range files {
				if info, err := os.Stat(f); err == nil && info.Mode().Perm()&0o077 != 0 {
					open += fmt.Sprintf("%s %v ", filepath.Base(f), info.Mode())
				}
			}
			p.stop()
			return newOutcome(len(files) > 0 && open == "", "%d files, open to others: %q", len(files), open)
		}},
		{"S21 Parquet", "a small file with 16 million equal rows does not take gigabytes", func(t *testing.T) outcome {
			out, code := r.execute(10*time.Minute, r.pathOf("pq"), "machine.parquet", "many.parquet", strconv.Itoa(1<<24))
			if code != 0 {
				t.Fatal(out)
			}
			cmd := exec.Command(r.program, "train", "many.parquet", "--bank", "tiny", "--policy", "window", "--length", "40", "--hop", "20", "--output", "many.safetensors")
			cmd.Dir = r.dir
			output, _ := cmd.CombinedOutput()
			peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
			return newOutcome(peak < 1500, "%d MB at most, code %d: %s", peak, cmd.ProcessState.ExitCode(), lastLine(string(output)))
		}},
	}
}
