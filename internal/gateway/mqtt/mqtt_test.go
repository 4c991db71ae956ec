package mqtt

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// number decodes a payload with one number.
type number struct{}

func (number) Decode(p []byte) ([]gateway.Part, error) {
	x, err := strconv.ParseFloat(string(p), 32)
	return []gateway.Part{{X: []float32{float32(x)}}}, err
}

type rig struct {
	t    testing.TB
	nc   *nats.Conn
	js   jetstream.JetStream
	in   jetstream.Stream
	dir  string
	book pipelinetest.LogBook

	maxIdleSessions int
	server          *mochi.Server // the newest broker's server
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: t.TempDir()}
	r.nc, r.js = pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	r.limitInput(-1)
	return r
}

// limitInput limits the number of messages in the input.
func (r *rig) limitInput(n int64) {
	r.t.Helper()
	var err error
	r.in, err = r.js.CreateOrUpdateStream(r.t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}, Discard: jetstream.DiscardNew, MaxMsgs: n,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.{{partition(4,1)}}.{{wildcard(1)}}"}})
	if err != nil {
		r.t.Fatal(err)
	}
}

// startGateway runs a gateway until the test calls end.
func (r *rig) startGateway(input func(*gateway.Gateway, *gateway.Topics) (func(), error)) (g *gateway.Gateway, stop func()) {
	r.t.Helper()
	g, err := gateway.New(r.nc, gateway.Config{Channels: []string{"x"}, Decoder: number{}, Lines: number{}, Dir: r.dir, Latency: 2 * time.Millisecond, StopTimeout: 20 * time.Millisecond, Log: r.book.Logger()})
	if err != nil {
		r.t.Fatal(err)
	}
	topics, err := gateway.ParseTopics("plant/+/sensor/+")
	if err != nil {
		r.t.Fatal(err)
	}
	closeInput, err := input(g, topics)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		closeInput()
	}
	r.t.Cleanup(stop)
	return g, stop
}

// brokerInput returns an input that listens as a broker at addr.
func (r *rig) brokerInput(addr *string, a gateway.Access) func(*gateway.Gateway, *gateway.Topics) (func(), error) {
	return func(g *gateway.Gateway, topics *gateway.Topics) (func(), error) {
		b, err := Listen(g, BrokerOptions{Addr: *addr, Access: a, Topics: topics, MaxMessage: 1 << 16, Log: r.book.Logger(), maxIdleSessions: r.maxIdleSessions})
		if err != nil {
			return nil, err
		}
		r.server = b.server
		*addr = b.Addr().String()
		return b.Close, nil
	}
}

// connectDevice connects a device that reconnects by itself.
func (r *rig) connectDevice(addr, id string, change func(*paho.ClientOptions)) paho.Client {
	r.t.Helper()
	o := paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(id).SetCleanSession(false).SetProtocolVersion(4).
		SetAutoReconnect(true).SetMaxReconnectInterval(50 * time.Millisecond).SetConnectTimeout(pipelinetest.Patience).SetStore(paho.NewOrderedMemoryStore())
	if change != nil {
		change(o)
	}
	c := paho.NewClient(o)
	r.waitForToken(c.Connect())
	r.t.Cleanup(func() { c.Disconnect(0) })
	return c
}

func (r *rig) waitForToken(t paho.Token) {
	r.t.Helper()
	if !t.WaitTimeout(pipelinetest.Patience) {
		r.t.Fatalf("no answer within %v\n%s", pipelinetest.Patience, r.book.String())
	}
	if t.Error() != nil {
		r.t.Fatalf("%v\n%s", t.Error(), r.book.String())
	}
}

// storedSamples returns the input's samples by key. Two messages with the same number count
// once, as in the stage.
func (r *rig) storedSamples() map[string][]float32 {
	r.t.Helper()
	all := map[string][]float32{}
	last := map[string]string{}
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"x"}})
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := r.in.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for seq := range info.State.LastSeq {
		m, err := r.in.GetMsg(r.t.Context(), seq+1)
		if err != nil {
			r.t.Fatal(err)
		}
		key := m.Subject[strings.LastIndex(m.Subject, ".")+1:]
		if n := m.Header.Get("Eusn-Seq"); n == last[key] {
			continue
		} else {
			last[key] = n
		}
		var b codec.Batch
		if err := dec.Decode(m.Data, &b); err != nil {
			r.t.Fatal(err)
		}
		all[key] = append(all[key], b.X...)
	}
	return all
}

// expectComplete fails unless each key has each number from 0 to n-1 exactly once, and in order
// if ordered is set. It waits for the numbers: after a reconnect this library reports messages
// as acknowledged although it is still resending them.
func (r *rig) expectComplete(keys, n int, ordered bool) {
	r.t.Helper()
	for stop := time.Now().Add(pipelinetest.Patience); time.Now().Before(stop); time.Sleep(20 * time.Millisecond) {
		samples := 0
		for _, x := range r.storedSamples() {
			samples += len(x)
		}
		if samples >= keys*n {
			break
		}
	}
	time.Sleep(100 * time.Millisecond) // time for duplicates
	got := r.storedSamples()
	for k := range keys {
		x := got[fmt.Sprintf("A/%d", k)]
		if len(x) != n {
			r.t.Errorf("key %d has %d samples, want %d: %v", k, len(x), n, x)
			continue
		}
		if !ordered {
			slices.Sort(x)
		}
		for i := range n {
			if x[i] != float32(i) {
				r.t.Errorf("key %d: sample %d is %v", k, i, x[i])
				break
			}
		}
	}
}

// With sessions, nothing is lost or duplicated when the gateway ends and restarts while the
// input is full.
func TestDevicesOutliveTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	_, end := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	const devices, each = 4, 120
	var clients []paho.Client
	for d := range devices {
		qos := d % 2
		clients = append(clients, r.connectDevice(addr, fmt.Sprint("device", qos, d), nil))
	}
	var tokens []paho.Token
	for i := range each {
		for d, c := range clients {
			tokens = append(tokens, c.Publish(fmt.Sprintf("plant/A/sensor/%d", d), byte(1+d%2), false, fmt.Sprint(i)))
		}
		switch i {
		case 1:
			// A message of a device with only one packet id may be duplicated (package gateway,
			// "What the outbox is for"): this library loses a PUBREC that arrives when the
			// connection ends, and resends the message.
			for _, tok := range tokens {
				r.waitForToken(tok)
			}
		case 20, 60, 100: // full
			info, err := r.in.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r.limitInput(int64(max(1, info.State.Msgs)))
		case 30, 70, 110:
			end()
			r.limitInput(-1)
			_, end = r.startGateway(r.brokerInput(&addr, gateway.Access{}))
		}
	}
	for _, tok := range tokens {
		// A token has an error if its write met the end of the connection; the library resends
		// the message, and expectComplete waits for it.
		if !tok.WaitTimeout(pipelinetest.Patience) {
			t.Fatal("a message is never acknowledged")
		}
	}
	// After a reconnect this library sends new messages and repetitions in parallel.
	r.expectComplete(devices, each, false)
}

// The acknowledgement is sent after the message is stored, not before.
func TestNoAcknowledgementWhileFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	r.limitInput(1)
	c := r.connectDevice(addr, "d", nil)
	r.waitForToken(c.Publish("plant/A/sensor/0", 1, false, "0"))
	full := c.Publish("plant/A/sensor/0", 1, false, "1")
	if full.WaitTimeout(300 * time.Millisecond) {
		t.Error("a message is acknowledged that the input has not taken")
	}
	r.limitInput(-1)
	r.waitForToken(full)
	r.expectComplete(1, 2, true)
}

// A topic without a stream ends the connection: MQTT 3.1.1 has no negative acknowledgement.
func TestRefusedTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	lost := make(chan bool, 1)
	c := r.connectDevice(addr, "d", func(o *paho.ClientOptions) {
		o.SetAutoReconnect(false).SetConnectionLostHandler(func(paho.Client, error) { lost <- true })
	})
	tok := c.Publish("elsewhere/A", 1, false, "0")
	select {
	case <-lost:
	case <-time.After(pipelinetest.Patience):
		t.Fatal("the connection stays")
	}
	if tok.WaitTimeout(0) && tok.Error() == nil {
		t.Error("acknowledged")
	}
	if g.Stats().Refused["mqtt"] != 1 || r.book.Lines("fits none of the patterns") != 1 {
		t.Errorf("%+v\n%s", g.Stats(), r.book.String())
	}
}

// wire is a device that sends literal bytes: the library of the other devices supports only
// MQTT 3.1.1, and reconnects by itself.
type wire struct {
	t testing.TB
	c net.Conn
}

func dialWire(t testing.TB, addr string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(pipelinetest.Patience))
	return &wire{t, c}
}

func (w *wire) send(packet string) {
	w.t.Helper()
	if _, err := io.WriteString(w.c, packet); err != nil {
		w.t.Fatal(err)
	}
}

// request sends a packet and returns the body of the answer, which must have the type want.
func (w *wire) request(want byte, packet string) []byte {
	w.t.Helper()
	head := make([]byte, 2)
	w.send(packet)
	if _, err := io.ReadFull(w.c, head); err != nil || head[0] != want || head[1] > 127 {
		w.t.Fatalf("the answer begins with % x (%v), want %x", head, err, want)
	}
	body := make([]byte, head[1])
	if _, err := io.ReadFull(w.c, body); err != nil {
		w.t.Fatal(err)
	}
	return body
}

const connectV5 = "\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01d" // clean start, client id d

// The gateway reports success in both answers to an MQTT 5 device with QoS 2.
func TestQoS2OfMQTT5(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.request(0x20, connectV5)
	for _, step := range []struct {
		name, packet string
		answer       byte
	}{
		{"PUBREC", "\x34\x16\x00\x10plant/A/sensor/7\x00\x07\x001", 0x50}, // PUBLISH, packet id 7, payload 1
		{"PUBCOMP", "\x62\x02\x00\x07", 0x70},                             // PUBREL
	} {
		body := w.request(step.answer, step.packet)
		if !bytes.HasPrefix(body, []byte{0, 7}) || len(body) > 2 && body[2] != 0 {
			t.Errorf("%s % x, want packet id 7 and the reason 0 or none", step.name, body)
		}
	}
	if got := r.storedSamples(); len(got["A/7"]) != 1 {
		t.Errorf("%v, want a sample of A/7", got)
	}
}

// A device with only one packet id, with QoS 2 and without a PUBREC, resends its message: the
// message is stored once. After the device has confirmed the PUBREC, the same id and content
// are a new message, even if the message is marked as a repetition, because the gateway may
// have missed the first transmission.
func TestOnePacketIDWithQoS2(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	const (
		connect = "\x10\x0d\x00\x04MQTT\x04\x00\x00\x3c\x00\x01d" // MQTT 3.1.1 with a persistent session
		publish = "\x15\x00\x10plant/A/sensor/7\x00\x01" + "1"    // packet id 1, payload 1
		release = "\x62\x02\x00\x01"
	)
	samples := func(want int) {
		t.Helper()
		if got := r.storedSamples(); len(got["A/7"]) != want {
			t.Fatalf("%v, want %d samples of A/7", got, want)
		}
	}
	first := "\x34"
	for range 3 { // the PUBREC does not reach the device
		w := dialWire(t, addr)
		w.request(0x20, connect)
		w.request(0x50, first+publish)
		w.c.Close()
		first = "\x3c" // DUP
	}
	samples(1)
	for n := range 3 {
		w := dialWire(t, addr)
		w.request(0x20, connect)
		w.request(0x50, "\x3c"+publish)
		w.request(0x70, release)
		w.c.Close()
		samples(n + 1) // for n = 0 this is the message above
	}
}

// An MQTT 5 device gets the reason why its payload cannot be decoded, after the payload is
// stored. An MQTT 3.1.1 device gets the plain acknowledgement, which has no reason.
func TestUnreadablePayload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.request(0x20, connectV5)
	body := w.request(0x40, "\x32\x16\x00\x10plant/A/sensor/7\x00\x07\x00?")
	if len(body) < 3 || body[2] != 0x99 || !bytes.Contains(body, []byte("invalid syntax")) {
		t.Errorf("PUBACK % x, want the reason 0x99 and the decoder's words", body)
	}
	old := r.connectDevice(addr, "old", nil)
	r.waitForToken(old.Publish("plant/A/sensor/7", 1, false, "?"))
	info, err := r.in.Info(t.Context())
	if err != nil || info.State.Msgs != 2 {
		t.Fatalf("%d messages are stored (%v), want both", info.State.Msgs, err)
	}
	if m, err := r.in.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "?" || !strings.Contains(m.Header.Get("Eusn-Unreadable"), "invalid syntax") {
		t.Errorf("%+v, %v: want the payload and the reason", m, err)
	}
}

// If a device reconnects while its message waits, the message is stored once: the old
// connection releases the message before its repetition.
func TestReconnectWhileWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.request(0x20, connectV5) // the gateway works
	if err := r.js.DeleteStream(t.Context(), "EUSN-IN"); err != nil {
		t.Fatal(err)
	}
	const devices = 6
	var repeats []*wire
	for d := range devices {
		connect := "\x10\x0d\x00\x04MQTT\x04\x00\x00\x3c\x00\x01" + string(rune('e'+d)) // MQTT 3.1.1 with a persistent session
		publish := "\x15\x00\x10plant/A/sensor/" + fmt.Sprint(d) + "\x00\x07" + "1"
		first := dialWire(t, addr)
		first.request(0x20, connect)
		first.send("\x32" + publish)
		time.Sleep(20 * time.Millisecond) // until the message waits: a wait that is too short can only hide the fault
		second := dialWire(t, addr)
		second.request(0x20, connect)
		second.send("\x3a" + publish) // DUP
		repeats = append(repeats, second)
	}
	r.limitInput(-1)
	for _, w := range repeats {
		w.request(0x40, "")
	}
	time.Sleep(300 * time.Millisecond) // time for messages of the old connections
	for key, x := range r.storedSamples() {
		if len(x) != 1 {
			t.Errorf("%s has %d samples, want 1", key, len(x))
		}
	}
}

// Devices log in over TLS, only with the right password and with a certificate they can verify.
func TestLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	certified := httptest.NewTLSServer(nil) // a certificate for 127.0.0.1
	certified.Close()
	trusting := x509.NewCertPool()
	trusting.AddCert(certified.Certificate())
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{User: "u", Password: "secret", TLS: &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}}))
	for _, c := range []struct {
		scheme, password string
		roots            *x509.CertPool
		ok               bool
	}{
		{"ssl", "secret", trusting, true},
		{"ssl", "wrong", trusting, false},
		{"ssl", "secret", x509.NewCertPool(), false},
		{"tcp", "secret", trusting, false},
	} {
		client := paho.NewClient(paho.NewClientOptions().AddBroker(c.scheme + "://" + addr).SetUsername("u").SetPassword(c.password).
			SetAutoReconnect(false).SetTLSConfig(&tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}))
		tok := client.Connect()
		ended := tok.WaitTimeout(pipelinetest.Patience)
		if !ended || (tok.Error() == nil) != c.ok {
			t.Errorf("%s, password %q: %v", c.scheme, c.password, tok.Error())
		}
		if c.ok {
			r.waitForToken(client.Publish("plant/A/sensor/7", 1, false, "1"))
		}
		client.Disconnect(0)
	}
	if got := r.storedSamples(); len(got["A/7"]) != 1 {
		t.Errorf("%v, want a sample of A/7", got)
	}
}

// startMosquitto starts mosquitto and returns its address.
func startMosquitto(t *testing.T) (addr string) {
	t.Helper()
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/mosquitto"); err != nil {
			parts.Absent(t, "mosquitto", "no mosquitto here: apt install mosquitto")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	m := exec.Command(path, "-p", port)
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Process.Kill(); m.Wait() })
	return addr
}

// The same through Debian's mosquitto, with the gateway as a client.
func TestBehindMosquitto(t *testing.T) {
	t.Parallel()
	addr := startMosquitto(t)
	r := newRig(t)
	client := func(g *gateway.Gateway, topics *gateway.Topics) (func(), error) {
		c, err := Follow(g, ClientOptions{URL: "tcp://" + addr, ID: "gateway", Topics: topics, Log: r.book.Logger()})
		if err != nil {
			return nil, err
		}
		return c.Close, nil
	}
	_, end := r.startGateway(client)
	connected := func(n int) {
		for stop := time.Now().Add(pipelinetest.Patience); r.book.Lines("connected to the broker") < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(stop) {
				t.Fatalf("not connected:\n%s", r.book.String())
			}
		}
	}
	connected(1)
	const devices, each = 4, 120
	var clients []paho.Client
	for d := range devices {
		clients = append(clients, r.connectDevice(addr, fmt.Sprint("device", d), nil))
	}
	var tokens []paho.Token
	for i := range each {
		for d, c := range clients {
			tokens = append(tokens, c.Publish(fmt.Sprintf("plant/A/sensor/%d", d), 1, false, fmt.Sprint(i)))
		}
		switch i {
		case 40, 80:
			info, err := r.in.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r.limitInput(int64(max(1, info.State.Msgs)))
			time.Sleep(50 * time.Millisecond)
			end()
			r.limitInput(-1)
			_, end = r.startGateway(client)
		}
	}
	for _, tok := range tokens {
		r.waitForToken(tok)
	}
	r.expectComplete(devices, each, true)
}

// Failed logins leave no state, and the gateway still remembers the messages of a device.
func TestStrangers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, end := r.startGateway(r.brokerInput(&addr, gateway.Access{User: "u", Password: "secret"}))
	c := r.connectDevice(addr, "device", func(o *paho.ClientOptions) { o.SetUsername("u").SetPassword("secret") })
	r.waitForToken(c.Publish("plant/A/sensor/7", 1, false, "1"))
	const strangers = 100
	var refused sync.WaitGroup // in parallel: each waits a second for its refusal
	for range strangers {
		refused.Go(func() {
			stranger := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID("device").SetCleanSession(true).SetUsername("u").SetPassword("wrong").SetAutoReconnect(false))
			if tok := stranger.Connect(); !tok.WaitTimeout(pipelinetest.Patience) || tok.Error() == nil {
				t.Error("a wrong password was taken")
			}
		})
	}
	refused.Wait()
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(all.String(), "mqtt.(*acks).run"); n >= strangers { // other tests have some
		t.Errorf("%d connections wait for acknowledgements", n)
	}
	c.Disconnect(0)
	end()
	if got := g.Sessions(); !slices.Contains(got, sessionPrefix+"device") {
		t.Errorf("the gateway remembers %q, not the device", got)
	}
}

// qos0 is a message of QoS 0 from another broker.
type qos0 struct{ paho.Message }

func (qos0) Qos() byte       { return 0 }
func (qos0) Payload() []byte { return make([]byte, 1<<16) }

// While the input is full, messages of QoS 0 from another broker do not fill the memory: they
// are dropped and counted, like lines over UDP.
func TestBrokerDoesNotFillTheMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g, _ := r.startGateway(func(*gateway.Gateway, *gateway.Topics) (func(), error) { return func() {}, nil })
	c := &Client{gateway: g, wake: make(chan struct{}, 1)}
	const count = 2 * queueBytes >> 16
	for range count {
		c.queueMessage(nil, qos0{})
	}
	n, dropped := len(c.queue), g.Stats().Dropped
	if n<<16 > queueBytes || n < count/3 || uint64(n)+dropped != count {
		t.Errorf("of %d messages %d wait and %d were dropped, want about half and half", count, n, dropped)
	}
}
