package notify_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/notify"
	"github.com/eusn-stream/eusn-stream/internal/roles"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// TestWebhook: a receiver that fails, is unreachable or slow gets each event at least once and in
// order, signed, even if the process is killed; after a refused event it gets the next event.
func TestWebhook(t *testing.T) {
	r := newRig(t)
	const secret = "s3"
	var mu sync.Mutex
	var taken []uint64
	calls := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/" { // a redirect was followed
			t.Errorf("%s %s", q.Method, q.URL.Path)
			return
		}
		body, err := io.ReadAll(q.Body)
		e, wrong := alarm.Unmarshal(body)
		at, signature, _ := strings.Cut(strings.TrimPrefix(q.Header.Get(notify.HeaderSignature), "t="), ",v1=")
		if err != nil || wrong != nil || signature != notify.Sign(secret, at, body) || q.Header.Get(notify.HeaderIdempotency) != e.ID || e.ID == "" {
			t.Errorf("%s with %v: %v, %v", body, q.Header, err, wrong)
		}
		mu.Lock()
		defer mu.Unlock()
		switch calls++; {
		case e.Number == 4:
			w.WriteHeader(http.StatusUnprocessableEntity)
		case calls%3 == 0:
			taken = append(taken, e.Number)
		default:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusFound}[calls%2])
		}
	}))
	defer receiver.Close()
	hook := &notify.Webhook{Job: "job", URL: receiver.URL, Secret: secret, First: time.Millisecond, Log: r.log}
	p := r.startProcess(hook)
	got := func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(taken)
	}
	a := r.publishEvent(alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "s"}) // event 1
	r.publishEvent(alarm.Event{Kind: alarm.Cleared, Rule: "rub", Key: "s", Alarm: a})
	r.publishEvent(alarm.Event{Kind: alarm.RulesChanged})                       // event 3, without an alarm
	b := r.publishEvent(alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "s"}) // event 4, refused
	r.waitFor("two events", func() bool { return got() == "[1 2]" })
	r.killWhenIdle(p, "webhook")
	r.publishEvent(alarm.Event{Kind: alarm.Cleared, Rule: "rub", Key: "s", Alarm: b}) // event 5, while no process runs
	p = r.startProcess(hook)
	r.waitFor("the event of meanwhile", func() bool { return strings.HasSuffix(got(), " 5]") })
	r.stopProcess(p)
}

// TestRights: the rights of the alarm process suffice for all outputs.
func TestRights(t *testing.T) {
	u, password, err := roles.NewUser("a", roles.Alarms)
	if err != nil {
		t.Fatal(err)
	}
	rights, err := roles.RightsOf(roles.Alarms, u.Name, "job", "sensors.*")
	if err != nil {
		t.Fatal(err)
	}
	r := newRigWith(t, natsserver.Options{Port: natsserver.RandomPort, Users: []natsserver.User{{Name: u.Name, Password: u.Hash, Publish: rights.Publish, Deny: rights.Deny, Subscribe: rights.Subscribe}}})
	refused := make(chan error, 64)
	r.connect = func() (*nats.Conn, error) {
		return nats.Connect(r.server.URL(), nats.UserInfo(u.Name, password), nats.CustomInboxPrefix(roles.InboxPrefix(u.Name)),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	}
	m, b := newManager(t), new(broker)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	b.startBroker(t, address, nil)
	posted := make(chan string, 8)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { posted <- q.Header.Get(notify.HeaderIdempotency) }))
	defer hook.Close()
	all := []*process{
		r.startProcess(&notify.Webhook{Job: "job", URL: hook.URL, First: time.Millisecond, Log: r.log}),
		r.startProcess(&notify.MQTT{Job: "job", URL: "tcp://" + address, User: "u", Password: "right", Prefix: "p", First: time.Millisecond, Log: r.log}),
		r.startProcess(&notify.Alertmanager{Job: "job", URL: m.URL + "/prefix", First: time.Millisecond, Log: r.log}),
	}
	r.publishEvent(raisedEvent("rub", "a"))
	r.waitFor("the event to be posted", func() bool { return len(posted) > 0 })
	r.waitFor("the event to be published", func() bool { return len(b.received()) == 1 })
	r.waitFor("the alert", func() bool { on, _ := m.keys(); return on == "a" })
	for _, p := range all {
		r.stopProcess(p)
	}
	select {
	case err := <-refused:
		t.Error(err)
	default:
	}
}

// TestReceivers: a receiver that requires TLS answers 400 to plain requests: no event is skipped
// then. Receiver problems are logged with advice.
func TestReceivers(t *testing.T) {
	taken := make(chan string, 1)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, _ := q.BasicAuth(); user != "u" || password != "right" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		taken <- q.Header.Get(notify.HeaderIdempotency)
	}))
	receiver.Config.ErrorLog = log.New(io.Discard, "", 0) // of failed handshakes
	receiver.StartTLS()
	defer receiver.Close()
	trusted := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	trusted.RootCAs.AddCert(receiver.Certificate())
	at := strings.TrimPrefix(receiver.URL, "https://")
	_, port, _ := strings.Cut(at, ":")
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	r := newRig(t)
	for _, c := range []struct {
		url  string
		tls  *tls.Config
		says string
	}{
		{"https://u:right@" + at, nil, "alarms.tls.ca"},
		{"https://u:right@localhost:" + port, trusted, "use an address with a host name of the receiver's certificate"},
		{"https://u:wrong@" + at, trusted, "add user and password to the address"},
		{"http://u:right@" + at, trusted, "the receiver requires TLS"},
		{"https" + strings.TrimPrefix(plain.URL, "http"), nil, "the receiver does not use TLS"},
		{"http://127.0.0.1:1", nil, "no program listens there"},
	} {
		said := new(pipelinetest.LogBook)
		p := r.startProcess(&notify.Webhook{Job: "job", URL: c.url, TLS: c.tls, First: time.Millisecond, Log: said.Logger()})
		if len(taken) == 0 && c.says == "alarms.tls.ca" { // only once: later receivers get the same event
			r.publishEvent(alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "s"})
		}
		r.waitFor(c.says, func() bool { return strings.Contains(said.String(), c.says) })
		if strings.Contains(said.String(), "right@") || strings.Contains(said.String(), "wrong") {
			t.Errorf("%s: the log has the password:\n%s", c.url, said.String())
		}
		r.stopProcess(p)
	}
	p := r.startProcess(&notify.Webhook{Job: "job", URL: "https://u:right@" + at, TLS: trusted, Log: r.log})
	if id := <-taken; id != "log-1" {
		t.Errorf("event %q is taken", id)
	}
	r.stopProcess(p)
}

// TestRefusedWithLink: a receiver that refuses an event with a link to its documentation does not
// require TLS: the event is skipped, and the next event is sent.
func TestRefusedWithLink(t *testing.T) {
	posted := make(chan string, 8)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		id := q.Header.Get(notify.HeaderIdempotency)
		if posted <- id; id == "log-1" {
			http.Error(w, `{"error": "unknown field, see https://docs.example/errors"}`, http.StatusBadRequest)
		}
	}))
	defer hook.Close()
	r := newRig(t)
	p := r.startProcess(&notify.Webhook{Job: "job", URL: hook.URL, First: time.Hour, Log: r.log})
	r.publishEvent(raisedEvent("rub", "a"))
	r.publishEvent(raisedEvent("rub", "b"))
	r.waitFor("the second event", func() bool { return len(posted) == 2 })
	if first, second := <-posted, <-posted; first != "log-1" || second != "log-2" {
		t.Errorf("posted %q, then %q", first, second)
	}
	r.stopProcess(p)
}
