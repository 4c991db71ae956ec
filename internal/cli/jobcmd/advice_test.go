package jobcmd_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/roles"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// typist types the program's advice, in the state that gave the advice.
type typist struct {
	*testing.T
	placeholders map[string]string
}

// advised runs a command that must end with a code and give an advice, and returns the
// advice.
func (p *typist) advised(code int, part string, args ...string) string {
	p.Helper()
	r := clitest.Exec(p.T, p.Context(), args...)
	for line := range strings.Lines(r.Out + "\n" + r.ErrOut) {
		for _, begin := range []string{"try: ", "first: "} {
			if text, is := strings.CutPrefix(line, begin); is && strings.Contains(text, part) && r.Code == code {
				return strings.TrimSpace(text)
			}
		}
	}
	p.Fatalf("%v ends with code %d and no advice with %q, want %d:\n%s%s", args, r.Code, part, code, r.Out, r.ErrOut)
	return ""
}

// call returns the program call in an advice with the given beginning, as a user types
// it: up to the first comma or semicolon, with values for words in capitals.
func (p *typist) call(advice, begin string) []string {
	p.Helper()
	_, after, is := strings.Cut(advice, "eusn-stream "+begin)
	if !is {
		p.Fatalf("no eusn-stream %s in %q", begin, advice)
	}
	line := begin + after
	for _, end := range []string{", ", "; ", ": ", " ("} {
		line, _, _ = strings.Cut(line, end)
	}
	words := strings.Fields(line)
	for i, w := range words {
		if value, is := p.placeholders[w]; is {
			words[i] = value
		} else if strings.ToUpper(w) == w && strings.ToLower(w) != w {
			p.Fatalf("%q has the placeholder %s, which the advice does not explain", advice, w)
		}
	}
	return words
}

// must types a call that must succeed.
func (p *typist) must(advice, begin string) clitest.Result {
	p.Helper()
	return clitest.Must(p.T, p.call(advice, begin)...)
}

// Each advice is typed as printed, in the state that printed it, with only the
// placeholders replaced: it solves the problem, or shows the promised information. The
// cases include a server named by --nats-url, a configuration file and an embedded
// server found without a name.
func TestAdvice(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	model, other := in("m.safetensors"), in("other.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	clitest.Must(t, "train", archive, "--output", other, "--members", "2", "--units", "9")
	conf := clitest.Write(t, in("stage.yaml"), "model: "+model+"\nstage:\n  partitions: 2\n")
	placeholders := map[string]string{"FILE": conf, "MODEL": model, "NEW": "new"}

	t.Run("a job by its URL", func(t *testing.T) {
		t.Parallel()
		p := &typist{t, placeholders}
		url := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort}).URL()
		at := func(args ...string) []string { return append(args, "--nats-url", url) }

		// No job yet.
		advice := p.advised(cli.ExitFailure, "creates the job", at("status")...)
		stage := clitest.Start(t, "reading sensors.*", append(p.call(advice, "run"), "--partitions", "2")...)
		clitest.Must(t, at("status")...)

		// Missing names.
		clitest.Must(t, at("replay", archive, "--streams", "5", "--rows", "16")...)
		clitest.Await(t, url, 24, 0)
		p.must(p.advised(cli.ExitFailure, "deadletter list", at("deadletter", "resend", "1")...), "deadletter list")
		p.must(p.advised(cli.ExitFailure, "model list", at("model", "show", "zz")...), "model list")
		p.must(p.advised(cli.ExitFailure, "labels list", at("labels", "list", "--job", "eusm")...), "labels list")
		p.must(p.advised(cli.ExitFailure, "status", at("status", "--partitions", "--job", "eusm")...), "status")
		p.must(p.advised(cli.ExitUsage, "status", at("state", "show", "pump", "pump")...), "status")

		// Another model than the job's.
		stage.Stop(t).Want(t, cli.ExitOK)
		advice = p.advised(cli.ExitOtherModel, "model show active", at("run", "--model", other)...)
		mine := *p
		mine.placeholders = map[string]string{"FILE": in("active.safetensors")}
		mine.must(advice, "model show active")
		stage = clitest.Start(t, "reading sensors.*", at("run", "--model", in("active.safetensors"))...)

		// Nobody has kept alarms, and no worker runs.
		alarms := clitest.Start(t, "alarm rules of job eusn: 0", p.call(p.advised(cli.ExitFailure, "alarms run", at("alarms", "list")...), "alarms run")...)
		clitest.Must(t, at("alarms", "list")...)
		alarms.Stop(t).Want(t, cli.ExitOK)
		stage.Stop(t).Want(t, cli.ExitOK)
		advice = p.advised(cli.ExitFailure, "eusn-stream run", at("status")...)
		stage = clitest.Start(t, "reading sensors.*", p.call(advice, "run")...)
		clitest.Must(t, at("status")...)
		stage.Stop(t).Want(t, cli.ExitOK)

		// The output was emptied: status, doctor and the next start give the same
		// report.
		clitest.OnServer(t, url, func(js jetstream.JetStream) error {
			s, err := js.Stream(t.Context(), "EUSN-OUT")
			if err == nil {
				err = s.Purge(t.Context())
			}
			return err
		})
		const lost = "the position of each partition is lost"
		for _, args := range [][]string{{"status"}, {"doctor"}, {"run"}} {
			if r := clitest.Exec(t, t.Context(), at(append(args, "-c", conf)...)...); r.Code != cli.ExitFailure || !strings.Contains(r.Out+r.ErrOut, lost) || !strings.Contains(r.Out+r.ErrOut, "--input-job eusn") {
				t.Errorf("%v: code %d\n%s%s", args, r.Code, r.Out, r.ErrOut)
			}
		}
		for _, args := range [][]string{{"status", "-c", conf}, {"run", "-c", conf}} {
			advice = p.advised(cli.ExitFailure, "--input-job eusn", at(args...)...)
			stage = clitest.Start(t, "reading the input of job eusn", p.call(advice, "run")...)
			pipelinetest.Until(t, "predictions of the input that is left", func() bool {
				return strings.Count(clitest.Must(t, at("tail", "--job", "new", "--since", "1h")...).Out, "\n") == 24
			})
			clitest.Must(t, at("status", "--job", "new")...)
			stage.Stop(t).Want(t, cli.ExitOK)
		}
	})

	t.Run("an embedded server", func(t *testing.T) {
		t.Parallel()
		p := &typist{t, placeholders}
		port := freePort(t)
		url := fmt.Sprint("nats://127.0.0.1:", port)
		conf := clitest.Write(t, in("embedded.yaml"), "model: "+model+"\nserver:\n  dir: "+in("data")+"\n  port: "+strconv.Itoa(port)+"\nstage:\n  partitions: 2\n")
		p.placeholders = map[string]string{"FILE": conf, "MODEL": model}

		// No server: the configuration is in the advice.
		advice := p.advised(cli.ExitUnreachable, "eusn-stream run", "status", "-c", conf)
		stage := clitest.Start(t, "reading sensors.*", p.call(advice, "run")...)
		clitest.Must(t, "status", "-c", conf)

		// Unusable messages: the advice for a user whose server was found
		// automatically.
		clitest.OnServer(t, url, func(js jetstream.JetStream) error {
			for range 12 {
				if _, err := js.Publish(t.Context(), "sensors.bad", []byte("nonsense")); err != nil {
					return err
				}
			}
			return nil
		})
		clitest.Await(t, url, 0, 12)
		if r := p.must(p.advised(cli.ExitFailure, "deadletter list", "status", "-c", conf), "deadletter list"); strings.Count(r.Out, "\n") < 12 {
			t.Errorf("%s%s", r.Out, r.ErrOut)
		}
		clitest.Must(t, "status", "--partitions", "-c", conf)
		p.advised(cli.ExitFailure, "another --dir", "status", "--partitions", "-c", conf, "--dir", in("nothing"))
		stage.Stop(t).Want(t, cli.ExitOK)
	})

	t.Run("a server that refuses", func(t *testing.T) {
		o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), Username: "u", Password: "p"}
		p := &typist{t, placeholders}
		url := "nats://" + pipelinetest.Serve(t, o).Addr().String()
		for _, args := range [][]string{{"status"}, {"doctor"}, {"status", "--partitions"}, {"run", "-c", conf}, {"gateway", "--model", model, "--http-listen", "127.0.0.1:0", "--outbox", in("outbox")}} {
			p.advised(cli.ExitUnreachable, "EUSN_NATS_CREDS", append(args, "--nats-url", url)...)
		}
		t.Setenv("EUSN_NATS_USER", "u")
		t.Setenv("EUSN_NATS_PASSWORD", "p")
		clitest.Must(t, "doctor", "--nats-url", url)
		// A password in a URL is in no advice.
		secret := "nats://u:p@" + strings.TrimPrefix(url, "nats://")
		if advice := p.advised(cli.ExitFailure, "--nats-url URL", "status", "--nats-url", secret); strings.Contains(advice, "u:p") {
			t.Error(advice)
		}
	})

	t.Run("no server", func(t *testing.T) {
		p := &typist{t, placeholders}
		const nobody = "nats://127.0.0.1:1"
		advice := p.advised(cli.ExitUnreachable, "doctor", "status", "--nats-url", nobody)
		if call := p.call(advice, "doctor"); !slices.Equal(call, []string{"doctor", "--nats-url", nobody}) {
			t.Errorf("%q", call)
		}
		p.advised(cli.ExitUnreachable, "omit --nats-url", p.call(advice, "doctor")...)
		clitest.Must(t, "doctor", "--dir", in("fresh"))
	})

	t.Run("a login of another role", func(t *testing.T) {
		p := &typist{t, placeholders}
		logIn, port := writeUsers(t, in("users")), strconv.Itoa(freePort(t))
		url := "nats://127.0.0.1:" + port
		conf := clitest.Write(t, in("roles.yaml"), "model: "+model+"\nserver:\n  dir: "+in("roles")+"\n  port: "+port+"\n  users: "+in("users")+"\nstage:\n  partitions: 2\n")
		clitest.Start(t, "reading sensors.*", "run", "-c", conf)
		for _, role := range []roles.Role{roles.Reader, roles.Gateway, roles.Sensor} {
			for _, args := range [][]string{{"status"}, {"status", "--partitions"}, {"deadletter", "list"}, {"model", "list"}, {"job", "trim", "--dry-run"}} {
				args = append(args, "--nats-url", url)
				logIn(role)
				p.advised(cli.ExitFailure, "the same command with the login of an operator", args...)
				logIn(roles.Operator)
				clitest.Must(t, args...)
			}
		}
	})

	t.Run("a gateway that vanished", func(t *testing.T) {
		t.Parallel()
		s := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
		at := []string{"--nats-url", s.URL()}
		clitest.Start(t, "reading sensors.*", append([]string{"run", "--model", model, "--partitions", "2"}, at...)...)
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		last, err := json.Marshal(fleet.Sighting{Role: fleet.RoleGateway, ID: "killed", Host: host, PID: 1})
		if err != nil {
			t.Fatal(err)
		}
		nc, _ := pipelinetest.Connect(t, s)
		if err := nc.Publish(wire.HeartbeatSubject("eusn"), last); err != nil {
			t.Fatal(err)
		}
		status := func() string { return clitest.Must(t, append([]string{"status"}, at...)...).Out }
		const vanished, advice = "did not shut down cleanly", "first: check its log, then restart it with the same configuration"
		pipelinetest.Until(t, "the finding", func() bool { return strings.Contains(status(), vanished) })
		if out := status(); !strings.Contains(out, advice) {
			t.Errorf("no %q in\n%s", advice, out)
		}
		clitest.Start(t, "publishing to sensors.*", append([]string{"gateway", "--model", model, "--http-listen", "127.0.0.1:0", "--outbox", in("vanished")}, at...)...)
		if out := status(); strings.Contains(out, vanished) || strings.Contains(out, "first: ") {
			t.Errorf("with the gateway again:\n%s", out)
		}
	})
}

// writeUsers writes a users file with a user for each role. logIn makes the following
// commands use a role's login.
func writeUsers(t *testing.T, path string) (logIn func(roles.Role)) {
	t.Helper()
	lines, passwords := "", map[roles.Role]string{}
	for _, role := range roles.All {
		u, password, err := roles.NewUser(string(role), role)
		if err != nil {
			t.Fatal(err)
		}
		lines += u.FormatLine() + "\n"
		passwords[role] = password
	}
	clitest.Write(t, path, lines)
	return func(role roles.Role) {
		t.Setenv("EUSN_NATS_USER", string(role))
		t.Setenv("EUSN_NATS_PASSWORD", passwords[role])
		t.Setenv("EUSN_NATS_INBOX_PREFIX", roles.InboxPrefix(string(role)))
	}
}

// freePort returns an unused port of 127.0.0.1.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
