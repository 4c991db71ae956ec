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

// broker records published messages.
type broker struct {
	mochi.HookBase
	mu    sync.Mutex
	taken []string // topic, QoS, retained, event ID
	ids   []string // of clients

	forbidden string // end of a topic: the broker closes the connection of its publishers
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

// received returns the published messages without duplicates.
func (b *broker) received() []string {
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

// startBroker runs a broker at an address until end.
func (b *broker) startBroker(t *testing.T, address string, with *tls.Config) (end func()) {
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

// TestMQTT: an unreachable broker or a killed process loses no event: each is published at least
// once and in order, with QoS 1, and retained if configured.
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
	p := r.startProcess(out)
	r.waitFor("a broker that is away to be said", func() bool { return strings.Contains(said.String(), "no program listens there") })
	b := new(broker)
	end := b.startBroker(t, address, nil)
	r.waitFor("a connection before there is an event", func() bool { return strings.Contains(said.String(), "connected to the broker") })
	var want []string
	put := func(e alarm.Event, key string) uint64 {
		n := r.publishEvent(e)
		want = append(want, fmt.Sprintf("plant/x/job/alarm/%s/%s 1 true log-%d <nil>", e.Rule, key, n))
		return n
	}
	all := func() {
		t.Helper()
		r.waitFor("the events", func() bool { return slices.Equal(b.received(), want) })
	}
	n := put(raisedEvent("rub", "A.pump 7"), "A/pump=207")
	put(clearedEvent("rub", "A.pump 7", n), "A/pump=207")
	all()
	before := said.Lines("retrying")
	end()
	put(raisedEvent("flat", "s+/#"), "s=2B=2F=23")                                       // while the broker is down
	r.waitFor("that to be said", func() bool { return said.Lines("retrying") > before }) // about the event, or about the broker
	b.startBroker(t, address, nil)
	all()
	r.killWhenIdle(p, "mqtt")
	put(raisedEvent("flat", "t"), "t") // while no process runs
	p = r.startProcess(out)
	all()
	r.stopProcess(p)
	if p = r.startProcess(out); !slices.Equal(b.ids, slices.Repeat([]string{"eusn-alarms-job"}, len(b.ids))) {
		t.Errorf("clients %q", b.ids)
	}
	r.stopProcess(p)
}

// TestMQTTForbidden: a broker that closes the connection on a forbidden topic does not block other
// events; the log names the skipped event.
func TestMQTTForbidden(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	b := &broker{forbidden: "/secret"}
	b.startBroker(t, address, nil)
	said := new(pipelinetest.LogBook)
	p := r.startProcess(&notify.MQTT{Job: "job", URL: "tcp://" + address, User: "u", Password: "right", Prefix: "x", First: time.Millisecond, Log: said.Logger()})
	r.waitFor("a connection", func() bool { return strings.Contains(said.String(), "connected to the broker") })
	r.publishEvent(raisedEvent("rub", "secret"))
	n := r.publishEvent(raisedEvent("rub", "open"))
	want := fmt.Sprintf("x/job/alarm/rub/open 1 false log-%d <nil>", n)
	r.waitFor("the other event", func() bool { return slices.Equal(b.received(), []string{want}) })
	if text := said.String(); said.Lines("event skipped") != 1 || !strings.Contains(text, "x/job/alarm/rub/secret") || !strings.Contains(text, "check that this login may publish there") {
		t.Errorf("it says\n%s", text)
	}
	r.stopProcess(p)
}

// TestMQTTWrong: problems with a broker, and advice, are logged before the first event.
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
	b.startBroker(t, plain, nil)
	b.startBroker(t, secure, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12})
	r := newRig(t)
	for _, c := range []struct {
		url, password string
		tls           *tls.Config
		says          string
	}{
		{"tcp://" + plain, "wrong", nil, "check the login (alarms.mqtt_user, alarms.mqtt_password)"},
		{"ssl://" + secure, "right", nil, "alarms.tls.ca"},
		{"ssl://" + plain, "right", trusted, "check the scheme of the address"},
		{"tcp://127.0.0.1:1", "right", nil, "no program listens there"},
		{"ssl://" + secure, "right", trusted, "connected to the broker"},
	} {
		said := new(pipelinetest.LogBook)
		p := r.startProcess(&notify.MQTT{Job: "job", URL: c.url, User: "u", Password: c.password, Prefix: "p", TLS: c.tls, First: time.Millisecond, Log: said.Logger()})
		r.waitFor(c.url+": "+c.says, func() bool { return strings.Contains(said.String(), c.says) })
		r.stopProcess(p)
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
