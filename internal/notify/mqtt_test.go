package notify_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/notify"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// broker is one that notes what is published.
type broker struct {
	mochi.HookBase
	mu    sync.Mutex
	taken []string // topic, QoS, retained, the event's id
	ids   []string // of clients

	forbidden string // the end of a topic: it ends the connection of whoever publishes there
}

func (b *broker) Provides(what byte) bool {
	return bytes.Contains([]byte{mochi.OnConnectAuthenticate, mochi.OnACLCheck, mochi.OnPublish}, []byte{what})
}

func (b *broker) OnConnectAuthenticate(c *mochi.Client, p packets.Packet) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ids = append(b.ids, c.ID)
	return string(p.Connect.Username) == "u" && string(p.Connect.Password) == "right"
}

func (b *broker) OnACLCheck(*mochi.Client, string, bool) bool { return true }

func (b *broker) OnPublish(c *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if b.forbidden != "" && strings.HasSuffix(p.TopicName, b.forbidden) {
		c.Stop(errors.New("not allowed"))
		return p, packets.ErrRejectPacket
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := alarm.Unmarshal(p.Payload)
	b.taken = append(b.taken, fmt.Sprint(p.TopicName, " ", p.FixedHeader.Qos, " ", p.FixedHeader.Retain, " ", e.ID, " ", err))
	return p, nil
}

// got is what was published, what came twice once.
func (b *broker) got() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var once []string
	for _, one := range b.taken {
		if !slices.Contains(once, one) {
			once = append(once, one)
		}
	}
	return once
}

// serve runs a broker at an address until end.
func (b *broker) serve(t *testing.T, address string, with *tls.Config) (end func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if with != nil {
		l = tls.NewListener(l, with)
	}
	s := mochi.New(&mochi.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := s.AddHook(b, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.AddListener(listeners.NewNet("t", l)); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	end = func() { once.Do(func() { _ = s.Close() }) }
	t.Cleanup(end)
	return end
}

// A broker that is away, and a process that is killed, lose no event: each comes at least
// once and in order, with QoS 1, and is kept by the broker where that is wanted.
func TestMQTT(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	said := new(pipelinetest.LogBook)
	out := &notify.MQTT{Job: "job", URL: "tcp://" + address, User: "u", Password: "right", Prefix: "plant/x", Retain: true, First: time.Millisecond, Log: said.Logger()}
	p := r.start(out)
	r.await("a broker that is away to be said", func() bool { return strings.Contains(said.String(), "nothing listens there") })
	b := new(broker)
	end := b.serve(t, address, nil)
	r.await("a connection before there is an event", func() bool { return strings.Contains(said.String(), "connected to the broker") })
	var want []string
	put := func(e alarm.Event, key string) uint64 {
		n := r.put(e)
		want = append(want, fmt.Sprintf("plant/x/job/alarm/%s/%s 1 true log-%d <nil>", e.Rule, key, n))
		return n
	}
	all := func() {
		t.Helper()
		r.await("the events", func() bool { return slices.Equal(b.got(), want) })
	}
	n := put(raised("rub", "A.pump 7"), "A/pump=207")
	put(cleared("rub", "A.pump 7", n), "A/pump=207")
	all()
	before := said.Lines("trying again")
	end()
	put(raised("flat", "s+/#"), "s=2B=2F=23")                                              // while the broker is away
	r.await("that to be said", func() bool { return said.Lines("trying again") > before }) // of the event, or of the broker alone
	b.serve(t, address, nil)
	all()
	r.killed(p, "mqtt")
	put(raised("flat", "t"), "t") // while nobody sends
	p = r.start(out)
	all()
	r.end(p)
	if p = r.start(out); !slices.Equal(b.ids, slices.Repeat([]string{"eusn-alarms-job"}, len(b.ids))) {
		t.Errorf("clients %q", b.ids)
	}
	r.end(p)
}

// A broker that ends the connection of whoever publishes to a topic does not hold up the
// events of others: the log says which one is left out.
func TestMQTTForbidden(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	b := &broker{forbidden: "/secret"}
	b.serve(t, address, nil)
	said := new(pipelinetest.LogBook)
	p := r.start(&notify.MQTT{Job: "job", URL: "tcp://" + address, User: "u", Password: "right", Prefix: "x", First: time.Millisecond, Log: said.Logger()})
	r.await("a connection", func() bool { return strings.Contains(said.String(), "connected to the broker") })
	r.put(raised("rub", "secret"))
	n := r.put(raised("rub", "open"))
	want := fmt.Sprintf("x/job/alarm/rub/open 1 false log-%d <nil>", n)
	r.await("the other event", func() bool { return slices.Equal(b.got(), []string{want}) })
	if text := said.String(); said.Lines("an event is left out") != 1 || !strings.Contains(text, "x/job/alarm/rub/secret") || !strings.Contains(text, "may this login publish there") {
		t.Errorf("it says\n%s", text)
	}
	r.end(p)
}

// What is wrong with a broker, and what to do about it, is said before there is an event.
func TestMQTTWrong(t *testing.T) {
	server := httptest.NewUnstartedServer(nil) // for its certificate
	server.StartTLS()
	defer server.Close()
	trusted := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	trusted.RootCAs.AddCert(server.Certificate())
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	b := new(broker)
	plain, secure := free(), free()
	b.serve(t, plain, nil)
	b.serve(t, secure, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12})
	r := newRig(t)
	for _, c := range []struct {
		url, password string
		tls           *tls.Config
		says          string
	}{
		{"tcp://" + plain, "wrong", nil, "is the login right (alarms.mqtt_user, alarms.mqtt_password)?"},
		{"ssl://" + secure, "right", nil, "alarms.tls.ca"},
		{"ssl://" + plain, "right", trusted, "does the address say whether it speaks TLS"},
		{"tcp://127.0.0.1:1", "right", nil, "nothing listens there"},
		{"ssl://" + secure, "right", trusted, "connected to the broker"},
	} {
		said := new(pipelinetest.LogBook)
		p := r.start(&notify.MQTT{Job: "job", URL: c.url, User: "u", Password: c.password, Prefix: "p", TLS: c.tls, First: time.Millisecond, Log: said.Logger()})
		r.await(c.url+": "+c.says, func() bool { return strings.Contains(said.String(), c.says) })
		r.end(p)
	}
	for address, ok := range map[string]bool{"tcp://h:1883": true, "wss://u:p@h/mqtt": true, "h:1883": false, "http://u:p@h": false, "": false, "tcp://": false} {
		if err := notify.CheckBroker(address); (err == nil) != ok || err != nil && strings.Contains(err.Error(), ":p@") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for prefix, ok := range map[string]bool{"eusn-stream": true, "a/b c/d": true, "": false, "/a": false, "a/": false, "a/+/b": false, "a#": false, "$SYS": false, strings.Repeat("x", 2000): false} {
		if err := notify.CheckPrefix(prefix); (err == nil) != ok {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}
