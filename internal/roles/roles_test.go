package roles_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/roles"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// plant is a server with one user per role, and the NATS streams of a job.
type plant struct {
	t         *testing.T
	url       string
	nc        *nats.Conn // of the server's process, with all rights
	js        jetstream.JetStream
	ca        *x509.CertPool
	passwords map[roles.Role]string
}

func newPlant(t *testing.T) *plant {
	p := &plant{t: t, ca: x509.NewCertPool(), passwords: map[roles.Role]string{}}
	dir := t.TempDir()
	authority, err := certs.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server, err := certs.NewServer(authority, certs.LocalHosts("plant", nil), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p.ca.AppendCertsFromPEM(authority.Cert)
	o := natsserver.Options{Host: "0.0.0.0", Port: natsserver.RandomPort, WebSocket: "[::1]:0", Cert: writeFile(t, dir, "cert", server.Cert), Key: writeFile(t, dir, "key", server.Key)}
	for _, role := range roles.All {
		u, password, err := roles.NewUser(string(role), role)
		if err != nil {
			t.Fatal(err)
		}
		r, err := roles.RightsOf(role, u.Name, "eusn", "sensors.*")
		if err != nil {
			t.Fatal(err)
		}
		o.Users = append(o.Users, natsserver.User{Name: u.Name, Password: u.Hash, Publish: r.Publish, Deny: r.Deny, Subscribe: r.Subscribe})
		p.passwords[role] = password
	}
	s := pipelinetest.Server(t, o)
	p.url = strings.Replace(s.URL(), "0.0.0.0", "127.0.0.1", 1)
	if _, _, err := net.SplitHostPort(strings.TrimPrefix(s.WebSocketURL(), "wss://")); err != nil {
		t.Errorf("WebSocket at %s: %v", s.WebSocketURL(), err)
	}
	ws, err := nats.Connect(s.WebSocketURL(), p.loginOptions(roles.Reader)...)
	if err != nil {
		t.Fatalf("over WebSocket: %v", err)
	}
	ws.Close()
	nc, js := pipelinetest.Connect(t, s)
	p.nc, p.js = nc, js
	for name, subjects := range map[string]string{"EUSN-IN": "sensors.*", "EUSN-OUT": "eusn.out.*", "EUSN-DLQ": "eusn.dlq.*", "EUSN-ROWS": "eusn.rows.*.*", "EUSN-LABELS": "eusn.labels.*", "EUSN-SHADOW": "eusn.shadow.*.*"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subjects}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "EUSN-MEMBERS"}); err != nil {
		t.Fatal(err)
	}
	return p
}

func writeFile(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *plant) loginOptions(role roles.Role) []nats.Option {
	return []nats.Option{
		nats.UserInfo(string(role), p.passwords[role]), nats.CustomInboxPrefix(roles.InboxPrefix(string(role))),
		nats.Secure(&tls.Config{RootCAs: p.ca, MinVersion: tls.VersionTLS12}), nats.MaxReconnects(0),
	}
}

// Each role may use the subjects for its work, and no others. The tests in internal/cli and
// pipeline use the roles for their work.
func TestRights(t *testing.T) {
	p := newPlant(t)
	const s, g, w, r, a, l, m, o = roles.Sensor, roles.Gateway, roles.Stage, roles.Reader, roles.Analyst, roles.Labeler, roles.Alarms, roles.Operator
	table := []struct {
		act, subject string
		may          []roles.Role
	}{
		{"pub", "sensors.pump7", []roles.Role{s, g, w, o}},
		{"pub", "sensors.pump7.more", nil},
		{"pub", "eusn.in.0.pump7", []roles.Role{o}},
		{"pub", "eusn.out.0", []roles.Role{w, o}},
		{"pub", "eusn.out.job", []roles.Role{w, o}},
		{"pub", "eusn.dlq.0", []roles.Role{w, o}},
		{"pub", "eusn.shadow.ab.0", []roles.Role{w, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-SHADOW.c", []roles.Role{a, o}},
		{"pub", "eusn.rows.0.1", []roles.Role{w, o}},
		{"pub", "eusn.labels.pump7", []roles.Role{l, o}},
		{"pub", "$KV.EUSN-MEMBERS.x", []roles.Role{w, o}},
		{"pub", "$O.EUSN-SNAP.C.x", []roles.Role{w, o}},
		{"pub", "$O.EUSN-MODELS.C.x", []roles.Role{w, o}},
		{"pub", "$JS.API.STREAM.INFO.OBJ_EUSN-MODELS", []roles.Role{w, a, o}},
		{"pub", "$JS.API.STREAM.MSG.GET.OBJ_EUSN-MODELS", []roles.Role{w, a, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.OBJ_EUSN-MODELS.c", []roles.Role{w, a, o}},
		{"pub", "$JS.API.STREAM.PURGE.OBJ_EUSN-MODELS", []roles.Role{o}},
		{"pub", "other.in.0.x", nil},
		{"pub", "$SYS.REQ.SERVER.PING", nil},
		{"pub", "_INBOX.reader.x", []roles.Role{m}},
		{"pub", "$JS.API.STREAM.INFO.EUSN-IN", []roles.Role{g, w, a, o}},
		{"pub", "$JS.API.STREAM.INFO.EUSN-OUT", []roles.Role{g, w, r, a, l, m, o}},
		{"pub", "eusn.alarm.a.b", []roles.Role{m, o}},
		{"pub", "eusn.alarms.acknowledge", []roles.Role{o}},
		{"pub", "eusn.status.report", []roles.Role{o}},
		{"pub", "eusn.status.answer.x", []roles.Role{g, w, m, o}},
		{"pub", "$SRV.PING.eusn-stream", []roles.Role{o}},
		{"pub", "eusn.alarms.alive", []roles.Role{m, o}},
		{"pub", "$KV.EUSN-LATEST.s", []roles.Role{m}},
		{"pub", "$JS.API.STREAM.MSG.GET.EUSN-ALARMS", []roles.Role{r, m, o}},
		{"pub", "$JS.API.STREAM.PURGE.EUSN-ALARMS", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.c", []roles.Role{r, m, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.KV_EUSN-LATEST.c", []roles.Role{r, o}},
		{"pub", "$JS.API.STREAM.INFO.EUSN-LABELS", []roles.Role{a, l, o}},
		{"pub", "$JS.API.STREAM.MSG.GET.EUSN-IN", []roles.Role{g, w, a, o}},
		{"pub", "$JS.API.STREAM.MSG.GET.EUSN-OUT", []roles.Role{g, w, a, m, o}},
		{"pub", "$JS.API.STREAM.MSG.DELETE.EUSN-IN", []roles.Role{o}},
		{"pub", "$JS.API.STREAM.PURGE.EUSN-OUT", []roles.Role{o}},
		{"pub", "$JS.API.STREAM.DELETE.EUSN-IN", []roles.Role{o}},
		{"pub", "$JS.API.STREAM.CREATE.MINE", []roles.Role{o}},
		{"pub", "$JS.API.STREAM.UPDATE.EUSN-IN", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-IN.c.eusn.in.0.*", []roles.Role{w, a, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-OUT.c", []roles.Role{w, r, a, l, m, o}},
		{"pub", "$JS.API.CONSUMER.MSG.NEXT.EUSN-OUT.c", []roles.Role{w, r, a, l, m, o}},
		{"pub", "$JS.API.STREAM.MSG.GET.OBJ_EUSN-SNAP", []roles.Role{w, a, o}},
		{"pub", "$JS.API.STREAM.MSG.GET.EUSN-ROWS", []roles.Role{w, a, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-LABELS.c", []roles.Role{a, l, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-DLQ.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.DURABLE.CREATE.EUSN-OUT.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.INFO.EUSN-OUT.c", []roles.Role{w, r, a, l, m, o}},
		{"pub", "$JS.API.CONSUMER.DELETE.EUSN-OUT.c", []roles.Role{w, r, a, l, m, o}},
		{"pub", "$JS.API.CONSUMER.PAUSE.EUSN-OUT.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.RESET.EUSN-OUT.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.UNPIN.EUSN-OUT.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.PAUSE.EUSN-IN.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.RESET.EUSN-IN.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.PAUSE.OBJ_EUSN-SNAP.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.PAUSE.EUSN-LABELS.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.webhook", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.webhook.eusn.alarm.*.>", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.INFO.EUSN-ALARMS.webhook", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.DELETE.EUSN-ALARMS.webhook", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.MSG.NEXT.EUSN-ALARMS.webhook", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.PAUSE.EUSN-ALARMS.webhook", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.RESET.EUSN-ALARMS.webhook", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.DELETE.EUSN-ALARMS.mqtt", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.PAUSE.EUSN-ALARMS.mqtt", []roles.Role{m, o}},
		{"pub", "$JS.API.CONSUMER.PAUSE.EUSN-ALARMS.c", []roles.Role{o}},
		{"pub", "$JS.API.CONSUMER.DELETE.EUSN-ALARMS.c", []roles.Role{r, m, o}},
		{"pub", "$JS.API.STREAM.CREATE.EUSN-ALARMS", []roles.Role{o}},
		{"pub", "$JS.API.STREAM.UPDATE.EUSN-ALARMS", []roles.Role{o}},
		{"pub", "$JS.API.STREAM.CREATE.KV_EUSN-LATEST", []roles.Role{o}},
		{"pub", "$JS.ACK.EUSN-OUT.c.1.1.1.1.1", []roles.Role{o}},
		{"sub", ">", nil},
		{"sub", "sensors.*", nil},
		{"sub", "eusn.out.*", nil},
		{"sub", "_INBOX.>", nil},
		{"sub", "eusn.alarms.*", []roles.Role{m}},
		{"sub", "eusn.status.report", []roles.Role{g, w, m}},
		{"sub", "eusn.status.answer.x", []roles.Role{o}},
		{"sub", "eusn.status.answer.heartbeat", []roles.Role{w, o}},
		{"sub", "$SRV.INFO.eusn-stream.x", []roles.Role{g, w, m}},
		{"sub", "_INBOX.sensor.>", []roles.Role{s}},
		{"sub", "_INBOX.analyst.>", []roles.Role{a}},
		{"sub", "_INBOX.operator.>", []roles.Role{o}},
		{"sub", "$SYS.>", nil},
	}
	for _, role := range roles.All {
		var mu sync.Mutex
		var message strings.Builder
		nc, err := nats.Connect(p.url, append(p.loginOptions(role), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(&message, err)
		}))...)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		for _, c := range table {
			if c.act == "pub" {
				err = nc.Publish(c.subject, []byte("{}"))
			} else {
				_, err = nc.SubscribeSync(c.subject)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		// This request is refused last, and handlers run in order: all earlier ones are
		// complete.
		if err := nc.Publish("eusn-end", nil); err != nil {
			t.Fatal(err)
		}
		refusals := func() string { mu.Lock(); defer mu.Unlock(); return message.String() }
		for end := time.Now().Add(pipelinetest.Patience); !strings.Contains(refusals(), `"eusn-end"`); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the server says only:\n%s", role, refusals())
			}
		}
		for _, c := range table {
			text := fmt.Sprintf("Publish to %q", c.subject)
			if c.act == "sub" {
				text = fmt.Sprintf("Subscription to %q", c.subject)
			}
			if refused := strings.Contains(refusals(), text); refused == slices.Contains(c.may, role) {
				t.Errorf("%s, %s %s: refused %v, want %v", role, c.act, c.subject, refused, !refused)
			}
		}
	}
}

// A worker has the rights in docs/nats.md, which TestDocumentedPermissions (package pipeline)
// checks with a stage, and the additions on the same page.
func TestStageRights(t *testing.T) {
	doc, err := os.ReadFile("../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(doc), "{ user: stage,")
	list, _, _ = strings.Cut(list, "{ user: setup,")
	hears, list, _ := strings.Cut(list, "publish:")
	want := []string{"sensors.*", "$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.CREATE.EUSN-OUT.>", "$JS.API.CONSUMER.INFO.EUSN-OUT.>", "$JS.API.CONSUMER.DELETE.EUSN-OUT.>", "$JS.API.CONSUMER.MSG.NEXT.EUSN-OUT.>"}
	for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(list, -1) {
		if m[1] != "_INBOX.>" {
			want = append(want, m[1])
		}
	}
	rights, err := roles.RightsOf(roles.Stage, "stage", "eusn", "sensors.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range rights.Subscribe[1:] { // after the inbox
		if !strings.Contains(hears, `"`+subject+`"`) {
			t.Errorf("docs/nats.md does not let a worker subscribe to %s", subject)
		}
	}
	got := rights.Publish
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 25 || !slices.Equal(slices.Compact(got), want) {
		t.Errorf("the role has\n%q\ndocs/nats.md has\n%q", got, want)
	}
}

// A sensor gets the acknowledgement of its sample; a client without a login, or with another
// authority, is refused.
func TestLogin(t *testing.T) {
	p := newPlant(t)
	nc, err := nats.Connect(p.url, p.loginOptions(roles.Sensor)...)
	if err != nil {
		t.Fatal(err)
	}
	js := pipelinetest.JetStream(t, nc)
	if ack, err := js.Publish(t.Context(), "sensors.a", []byte("x")); err != nil || ack.Stream != "EUSN-IN" {
		t.Errorf("a sensor's sample: %+v, %v", ack, err)
	}
	wrong := p.loginOptions(roles.Sensor)
	wrong[0] = nats.UserInfo("sensor", "guess")
	for name, opts := range map[string][]nats.Option{
		"Authorization Violation": wrong,
		"unknown authority":       {nats.UserInfo("sensor", p.passwords[roles.Sensor]), nats.Secure(&tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12})},
		"x509":                    nil,
	} {
		nc, err := nats.Connect(strings.Replace(p.url, "tls://", "nats://", 1), opts...)
		if err == nil {
			nc.Close()
		}
		pipelinetest.Mentions(t, err, name)
	}
	wrong[0] = nats.UserInfo("", "")
	if nc, err := nats.Connect(p.url, wrong...); err == nil {
		nc.Close()
		t.Error("a client without a user got in")
	}
}

// With several wildcards in a subject, a sensor may use all matching subjects.
func TestRightsOfPatterns(t *testing.T) {
	for subject, want := range map[string]string{"sensors.*": "sensors.*", "plant.{site}.line.{line}": "plant.*.line.*", "plant.>": "plant.>"} {
		if r, err := roles.RightsOf(roles.Sensor, "s", "eusn", subject); err != nil || !slices.Equal(r.Publish, []string{want}) {
			t.Errorf("%s: %q, %v", subject, r.Publish, err)
		}
	}
	if _, err := roles.RightsOf(roles.Sensor, "s", "eusn", ">"); err == nil {
		t.Error("a sensor may publish everywhere")
	}
}

func TestUsersFile(t *testing.T) {
	u, password, err := roles.NewUser("pump-hall_2", roles.Sensor)
	if err != nil || len(password) < 26 {
		t.Fatalf("password of %d characters, %v", len(password), err)
	}
	hash := u.Hash
	if strings.Contains(u.FormatLine(), password) {
		t.Error("the line holds the password")
	}
	got, err := roles.ReadUsers(strings.NewReader("# a comment\n\n  " + u.FormatLine() + "\r\nr reader " + hash))
	if err != nil || len(got) != 2 || got[0] != u || got[1].Role != roles.Reader {
		t.Errorf("read %+v, %v", got, err)
	}
	for text, says := range map[string]string{
		"":                           "no users",
		"# only this":                "no users",
		"a sensor":                   "line 1 has 2 words",
		"\na sensor secret":          `line 2: user "a": the third word is not a bcrypt hash`,
		"a boss " + hash:             `role "boss", want one of [sensor gateway`,
		"a sensor $2a$13" + hash[6:]: `user "a": the bcrypt hash has the cost 13, want 4 to 12`,
		"a sensor $2a$20" + hash[6:]: "cost 20",
		"a sensor $2a$00" + hash[6:]: "want 4 to 12",
		"a.b sensor " + hash:         `user "a.b"`,
		"* sensor " + hash:           `user "*"`,
		"a sensor " + hash + "\na reader " + hash: `line 2: user "a" is listed twice`,
	} {
		_, err := roles.ReadUsers(strings.NewReader(text))
		pipelinetest.Mentions(t, err, says)
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error shows what may be a password: %v", err)
		}
	}
}

// With several input subjects, a sensor may use each of them; the subject of the stage's own
// events is only for the stage and the operator.
func TestRightsOfSeveralSubjects(t *testing.T) {
	for _, role := range roles.All {
		r, err := roles.RightsOf(role, "u", "eusn", "press.{n}.v mill.>")
		if err != nil {
			t.Fatal(err)
		}
		publishes := role == roles.Sensor || role == roles.Gateway || role == roles.Stage || role == roles.Operator
		events := slices.ContainsFunc(r.Publish, func(s string) bool { return strings.HasPrefix(s, "eusn-idle-") })
		if slices.Contains(r.Publish, "press.*.v") != publishes || slices.Contains(r.Publish, "mill.>") != publishes || events != (role == roles.Stage || role == roles.Operator) {
			t.Errorf("%s may publish on %q", role, r.Publish)
		}
	}
}
