package mqtt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// mqttString encodes a string for MQTT.
func mqttString(s string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

// makePacket returns a packet with a type (and flags) and a body.
func makePacket(kind byte, body string) string {
	head := []byte{kind}
	for n := len(body); ; {
		b := byte(n & 0x7f)
		if n >>= 7; n > 0 {
			head = append(head, b|0x80)
			continue
		}
		return string(append(head, b)) + body
	}
}

// connectPacket returns a CONNECT of MQTT 3.1.1.
func connectPacket(id string, clean bool) string {
	flags := "\x00"
	if clean {
		flags = "\x02"
	}
	return makePacket(0x10, mqttString("MQTT")+"\x04"+flags+"\x00\x3c"+mqttString(id))
}

// expectClosed fails unless the broker closes the connection soon.
func (w *wire) expectClosed() {
	w.t.Helper()
	w.c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.Copy(io.Discard, w.c); err != nil && errors.As(err, new(net.Error)) && err.(net.Error).Timeout() {
		w.t.Error("the connection stays")
	}
}

// The broker stores a client id for days, so its length is limited.
func TestClientIDLength(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	if body := dialWire(t, addr).request(0x20, connectPacket(strings.Repeat("x", 256), false)); body[1] != 0 {
		t.Errorf("an id of 256 bytes: CONNACK % x", body)
	}
	long := dialWire(t, addr)
	if body := long.request(0x20, connectPacket(strings.Repeat("x", 257), false)); body[1] != 2 {
		t.Errorf("an id of 257 bytes: CONNACK % x, want the code 2", body)
	}
	long.expectClosed()
	if n := r.server.Clients.Len(); n != 1 || g.Stats().Refused["mqtt"] != 1 {
		t.Errorf("%d sessions, %d refused; want 1, 1", n, g.Stats().Refused["mqtt"])
	}
}

// The number of idle sessions is limited. Sessions without messages of QoS 1 or 2 are dropped
// first, then the sessions idle longest.
func TestSessionsAreLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maxIdleSessions = 8
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	device := dialWire(t, addr)
	device.request(0x20, connectPacket("device", false))
	device.request(0x40, makePacket(0x32, mqttString("plant/A/sensor/7")+"\x00\x01"+"1"))
	device.send("\xe0\x00")
	device.expectClosed()
	for i := range 40 {
		w := dialWire(t, addr)
		w.request(0x20, connectPacket(fmt.Sprint("flood", i), false))
		w.send("\xe0\x00")
		w.expectClosed()
	}
	for stop := time.Now().Add(pipelinetest.Patience); r.server.Clients.Len() > 8; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatalf("%d sessions, want 8", r.server.Clients.Len())
		}
	}
	if body := dialWire(t, addr).request(0x20, connectPacket("device", false)); body[0] != 1 {
		t.Errorf("CONNACK % x: the session of a device that has sent is gone", body)
	}
	if n := g.Stats().Forgotten; n != 33 || r.book.Lines("sessions of disconnected devices were deleted") == 0 {
		t.Errorf("%d sessions forgotten, want 33\n%s", n, r.book.String())
	}
	for _, cl := range r.server.Clients.GetAll() {
		if cl.Closed() && cl.Net.Conn != nil {
			t.Errorf("the client %s has its connection still", cl.ID)
		}
	}
}

// A connection that ends before its setup is complete leaves no session.
func TestBrokenSetUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	for i := range 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, connectPacket(fmt.Sprint("broken", i), true))
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	for stop := time.Now().Add(pipelinetest.Patience); r.server.Clients.Len() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatalf("%d clients are left", r.server.Clients.Len())
		}
	}
}

// The broker refuses topic aliases of MQTT 5.
func TestNoTopicAliases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.request(0x20, connectV5)
	body := w.request(0xe0, makePacket(0x30, mqttString("plant/A/sensor/7")+"\x03\x23\x00\x01"+"1"))
	if body[0] != 0x94 {
		t.Errorf("DISCONNECT % x, want the reason 0x94", body)
	}
}

// A topic longer than any key is refused, and the log has a part of the topic.
func TestLongTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.request(0x20, connectV5)
	w.send(makePacket(0x32, mqttString("plant/A/sensor/"+strings.Repeat("x", 5000))+"\x00\x01\x00"+"1"))
	body := make([]byte, 500)
	n, err := w.c.Read(body)
	if body = body[:n]; err != nil || n < 6 || body[0] != 0x40 || body[5] != 0x90 || g.Stats().Refused["mqtt"] != 1 || len(r.book.String()) > 2000 {
		t.Errorf("PUBACK % x, %d refused, a log of %d bytes", body, g.Stats().Refused["mqtt"], len(r.book.String()))
	}
}

// The broker stores no will of a device, and refuses wills with a large payload.
func TestWillsAreNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	will := func(id string, size int) string { // MQTT 5, a delay of a day, the session expires after a day
		day := "\x00\x01\x51\x80"
		return makePacket(0x10, mqttString("MQTT")+"\x05\x04\x00\x3c"+"\x05\x11"+day+mqttString(id)+"\x05\x18"+day+mqttString("plant/A/sensor/7")+mqttString(strings.Repeat("1", size)))
	}
	w := dialWire(t, addr)
	w.request(0x20, will("small", 100))
	cl, ok := r.server.Clients.Get("small")
	if !ok || cl.Properties.Will.Flag != 0 || cl.Properties.Will.Payload != nil || cl.Properties.Will.WillDelayInterval != 0 {
		t.Errorf("the will is kept: %+v", cl.Properties.Will)
	}
	large := dialWire(t, addr)
	if body := large.request(0x20, will("large", 5000)); body[1] != 0x97 {
		t.Errorf("CONNACK % x, want the reason 0x97", body)
	}
}

// The library allocates a packet when it knows the length: before the login packets must be
// small.
func TestFirstPacketIsSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.send("\x10\xff\xff\x03") // declares 65,535 bytes
	begun := time.Now()
	w.expectClosed()
	if d := time.Since(begun); d > 4*time.Second {
		t.Errorf("the connection ends after %v", d)
	}
	if n := g.Stats().Refused["mqtt"]; n != 1 {
		t.Errorf("%d connections are counted as refused, want 1", n)
	}
}

// A device that ignores missing acknowledgements is blocked at its connection.
func TestMessagesWithoutAcknowledgement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.request(0x20, connectPacket("d", false))
	w.request(0x40, makePacket(0x32, mqttString("plant/A/sensor/7")+"\x00\x01"+"0"))
	r.limitInput(1) // the input is full
	var all bytes.Buffer
	for i := range 1000 {
		all.WriteString(makePacket(0x32, mqttString("plant/A/sensor/7")+string(binary.BigEndian.AppendUint16(nil, uint16(i+2)))+"1"))
	}
	w.send(all.String())
	time.Sleep(500 * time.Millisecond) // a wait that is too short can only hide the fault
	if n := g.Stats().Messages["mqtt"]; n > 257 {
		t.Errorf("%d messages of a device are taken without an acknowledgement, want at most 256 and the first", n)
	}
	r.limitInput(-1)
	for range 1000 {
		w.request(0x40, "")
	}
}

// A large packet needs a place, and must be complete in time.
func TestLargePackets(t *testing.T) {
	t.Parallel()
	places := listen.NewPlaces(1)
	open := func() *timedConn {
		device, broker := net.Pipe()
		t.Cleanup(func() { device.Close(); broker.Close() })
		c := &timedConn{Conn: broker, limits: timedListener{pace: listen.Pace{Bytes: smallPacket, Each: 50 * time.Millisecond, Whole: time.Second}, places: places}}
		c.loggedIn.Store(true)
		return c
	}
	large := makePacket(0x30, strings.Repeat("x", smallPacket+1))
	first, second := open(), open()
	for _, part := range []string{makePacket(0x30, "small"), large[:1], large[1:2], large[2:3], large[3:10]} {
		if err := first.trackPackets([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if places.Used() != 1 || first.remaining != smallPacket+1-(10-3)+0 {
		t.Errorf("%d places are taken, %d bytes are missing", places.Used(), first.remaining)
	}
	if err := second.trackPackets([]byte(large[:4])); err != errPlace {
		t.Errorf("a second large packet: %v", err)
	}
	if err := first.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 9)); err == nil {
		t.Error("a packet that does not come is waited for")
	}
	if err := first.trackPackets([]byte(large[10:] + makePacket(0xc0, ""))); err != nil || first.remaining != 0 || places.Used() != 0 {
		t.Errorf("%v, %d bytes are missing, %d places are taken", err, first.remaining, places.Used())
	}
	if err := second.trackPackets([]byte(large[:4])); err != nil {
		t.Error(err)
	}
	second.Close()
	second.Close()
	if places.Used() != 0 {
		t.Error("a closed connection keeps its place")
	}
	if err := open().trackPackets([]byte("\x30\xff\xff\xff\xff\x01")); err != errLength {
		t.Errorf("a malformed length: %v", err)
	}
}

// A device whose session has ended begins a new session: a marked repeat is of no message of
// the old session.
func TestMessagesOfEndedSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	for expiry := range byte(2) { // seconds: the library ends the session, or the sweep
		id := fmt.Sprint("d", expiry)
		connect := makePacket(0x10, mqttString("MQTT")+"\x05\x00\x00\x3c\x05\x11\x00\x00\x00"+string(expiry)+mqttString(id))
		message := func(kind byte, number string) string {
			return makePacket(kind, mqttString("plant/"+id+"/sensor/7")+"\x00"+number+"\x00"+number)
		}
		w := dialWire(t, addr)
		w.request(0x20, connect)
		w.request(0x40, message(0x32, "1"))
		w.request(0x40, message(0x32, "2"))
		w.send("\xe0\x00")
		w.expectClosed()
		for stop := time.Now().Add(pipelinetest.Patience); ; time.Sleep(20 * time.Millisecond) {
			if _, found := r.server.Clients.Get(id); !found {
				break
			}
			if time.Now().After(stop) {
				t.Fatalf("the session of %s stays", id)
			}
		}
		w = dialWire(t, addr)
		if body := w.request(0x20, connect); body[0] != 0 {
			t.Errorf("CONNACK % x: the session of %s is still there", body, id)
		}
		w.request(0x40, message(0x3a, "1"))
		if x := r.storedSamples()[id+"/7"]; fmt.Sprint(x) != "[1 2 1]" {
			t.Errorf("%s has %v, want [1 2 1]", id, x)
		}
	}
}
