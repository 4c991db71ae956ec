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

// text is a string as MQTT writes it.
func text(s string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

// packet is a packet of a type (and flags) with a body.
func packet(kind byte, body string) string {
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

// connect is a CONNECT of MQTT 3.1.1.
func connect(id string, clean bool) string {
	flags := "\x00"
	if clean {
		flags = "\x02"
	}
	return packet(0x10, text("MQTT")+"\x04"+flags+"\x00\x3c"+text(id))
}

// ends fails unless the broker ends the connection soon.
func (w *wire) ends() {
	w.t.Helper()
	w.c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.Copy(io.Discard, w.c); err != nil && errors.As(err, new(net.Error)) && err.(net.Error).Timeout() {
		w.t.Error("the connection stays")
	}
}

// A client id is kept with its session for days: its length is limited.
func TestClientIDLength(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.gateway(r.broker(&addr, gateway.Access{}))
	if body := dialWire(t, addr).ask(0x20, connect(strings.Repeat("x", 256), false)); body[1] != 0 {
		t.Errorf("an id of 256 bytes: CONNACK % x", body)
	}
	long := dialWire(t, addr)
	if body := long.ask(0x20, connect(strings.Repeat("x", 257), false)); body[1] != 2 {
		t.Errorf("an id of 257 bytes: CONNACK % x, want the code 2", body)
	}
	long.ends()
	if n := r.server.Clients.Len(); n != 1 || g.Stats().Refused["mqtt"] != 1 {
		t.Errorf("%d sessions, %d refused; want 1, 1", n, g.Stats().Refused["mqtt"])
	}
}

// Sessions of devices that are away are limited. Those that have never sent a message
// which may come again go first, then those away longest.
func TestSessionsAreLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sessionsAway = 8
	addr := "127.0.0.1:0"
	g, _ := r.gateway(r.broker(&addr, gateway.Access{}))
	device := dialWire(t, addr)
	device.ask(0x20, connect("device", false))
	device.ask(0x40, packet(0x32, text("plant/A/sensor/7")+"\x00\x01"+"1"))
	device.send("\xe0\x00")
	device.ends()
	for i := range 40 {
		w := dialWire(t, addr)
		w.ask(0x20, connect(fmt.Sprint("flood", i), false))
		w.send("\xe0\x00")
		w.ends()
	}
	for stop := time.Now().Add(pipelinetest.Patience); r.server.Clients.Len() > 8; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatalf("%d sessions, want 8", r.server.Clients.Len())
		}
	}
	if body := dialWire(t, addr).ask(0x20, connect("device", false)); body[0] != 1 {
		t.Errorf("CONNACK % x: the session of a device that has sent is gone", body)
	}
	if n := g.Stats().Forgotten; n != 33 || r.book.Lines("sessions of devices that are away are forgotten") == 0 {
		t.Errorf("%d sessions forgotten, want 33\n%s", n, r.book.String())
	}
	for _, cl := range r.server.Clients.GetAll() {
		if cl.Closed() && cl.Net.Conn != nil {
			t.Errorf("the client %s has its connection still", cl.ID)
		}
	}
}

// A connection that ends before it is set up leaves no session behind.
func TestBrokenSetUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.gateway(r.broker(&addr, gateway.Access{}))
	for i := range 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, connect(fmt.Sprint("broken", i), true))
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	for stop := time.Now().Add(pipelinetest.Patience); r.server.Clients.Len() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatalf("%d clients are left", r.server.Clients.Len())
		}
	}
}

// A device of MQTT 5 may not have the broker remember topics.
func TestNoTopicAliases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.gateway(r.broker(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.ask(0x20, connectV5)
	body := w.ask(0xe0, packet(0x30, text("plant/A/sensor/7")+"\x03\x23\x00\x01"+"1"))
	if body[0] != 0x94 {
		t.Errorf("DISCONNECT % x, want the reason 0x94", body)
	}
}

// A topic that is longer than any key can be is refused, and the log has a part of it.
func TestLongTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.gateway(r.broker(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.ask(0x20, connectV5)
	w.send(packet(0x32, text("plant/A/sensor/"+strings.Repeat("x", 5000))+"\x00\x01\x00"+"1"))
	body := make([]byte, 500)
	n, err := w.c.Read(body)
	if body = body[:n]; err != nil || n < 6 || body[0] != 0x40 || body[5] != 0x90 || g.Stats().Refused["mqtt"] != 1 || len(r.book.String()) > 2000 {
		t.Errorf("PUBACK % x, %d refused, a log of %d bytes", body, g.Stats().Refused["mqtt"], len(r.book.String()))
	}
}

// The broker keeps no will of a device, and no will at all that has a large payload.
func TestWillsAreNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	r.gateway(r.broker(&addr, gateway.Access{}))
	will := func(id string, size int) string { // MQTT 5, a delay of a day, the session expires after a day
		day := "\x00\x01\x51\x80"
		return packet(0x10, text("MQTT")+"\x05\x04\x00\x3c"+"\x05\x11"+day+text(id)+"\x05\x18"+day+text("plant/A/sensor/7")+text(strings.Repeat("1", size)))
	}
	w := dialWire(t, addr)
	w.ask(0x20, will("small", 100))
	cl, ok := r.server.Clients.Get("small")
	if !ok || cl.Properties.Will.Flag != 0 || cl.Properties.Will.Payload != nil || cl.Properties.Will.WillDelayInterval != 0 {
		t.Errorf("the will is kept: %+v", cl.Properties.Will)
	}
	large := dialWire(t, addr)
	if body := large.ask(0x20, will("large", 5000)); body[1] != 0x97 {
		t.Errorf("CONNACK % x, want the reason 0x97", body)
	}
}

// The broker allocates a packet when it has its length: before the login it is small.
func TestFirstPacketIsSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.gateway(r.broker(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.send("\x10\xff\xff\x03") // 65,535 bytes are to follow
	begun := time.Now()
	w.ends()
	if d := time.Since(begun); d > 4*time.Second {
		t.Errorf("the connection ends after %v", d)
	}
	if n := g.Stats().Refused["mqtt"]; n != 1 {
		t.Errorf("%d connections are counted as refused, want 1", n)
	}
}

// A device that does not wait for acknowledgements waits at the connection.
func TestMessagesWithoutAcknowledgement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.gateway(r.broker(&addr, gateway.Access{}))
	w := dialWire(t, addr)
	w.ask(0x20, connect("d", false))
	w.ask(0x40, packet(0x32, text("plant/A/sensor/7")+"\x00\x01"+"0"))
	r.limit(1) // the input takes nothing more
	var all bytes.Buffer
	for i := range 1000 {
		all.WriteString(packet(0x32, text("plant/A/sensor/7")+string(binary.BigEndian.AppendUint16(nil, uint16(i+2)))+"1"))
	}
	w.send(all.String())
	time.Sleep(500 * time.Millisecond) // the test could miss the fault, not find one
	if n := g.Stats().Messages["mqtt"]; n > 257 {
		t.Errorf("%d messages of a device are taken without an acknowledgement, want at most 256 and the first", n)
	}
	r.limit(-1)
	for range 1000 {
		w.ask(0x40, "")
	}
}

// A large packet needs a place, and must be complete in time.
func TestLargePackets(t *testing.T) {
	t.Parallel()
	places := listen.NewPlaces(1)
	open := func() *timedConn {
		device, broker := net.Pipe()
		t.Cleanup(func() { device.Close(); broker.Close() })
		c := &timedConn{Conn: broker, limits: timed{pace: listen.Pace{Bytes: smallPacket, Each: 50 * time.Millisecond, Whole: time.Second}, places: places}}
		c.loggedIn.Store(true)
		return c
	}
	large := packet(0x30, strings.Repeat("x", smallPacket+1))
	first, second := open(), open()
	for _, part := range []string{packet(0x30, "small"), large[:1], large[1:2], large[2:3], large[3:10]} {
		if err := first.follow([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if places.Used() != 1 || first.left != smallPacket+1-(10-3)+0 {
		t.Errorf("%d places are taken, %d bytes are missing", places.Used(), first.left)
	}
	if err := second.follow([]byte(large[:4])); err != errPlace {
		t.Errorf("a second large packet: %v", err)
	}
	if err := first.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 9)); err == nil {
		t.Error("a packet that does not come is waited for")
	}
	if err := first.follow([]byte(large[10:] + packet(0xc0, ""))); err != nil || first.left != 0 || places.Used() != 0 {
		t.Errorf("%v, %d bytes are missing, %d places are taken", err, first.left, places.Used())
	}
	if err := second.follow([]byte(large[:4])); err != nil {
		t.Error(err)
	}
	second.Close()
	second.Close()
	if places.Used() != 0 {
		t.Error("a closed connection keeps its place")
	}
	if err := open().follow([]byte("\x30\xff\xff\xff\xff\x01")); err != errLength {
		t.Errorf("a malformed length: %v", err)
	}
}
