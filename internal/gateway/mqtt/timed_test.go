package mqtt

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/listen"
)

// connectPair returns both ends of a connection through a timed listener.
func connectPair(t *testing.T, login, write time.Duration) (device, broker net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if device, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if broker, err = (timedListener{Listener: l, login: login, write: write}).Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close(); broker.Close() })
	return device, broker
}

// An expired keepalive deadline after backpressure does not fail an acknowledgement.
func TestDeadlineIsOfReading(t *testing.T) {
	device, broker := connectPair(t, time.Minute, time.Minute)
	if err := broker.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Write([]byte("ack")); err != nil {
		t.Errorf("an acknowledgement: %v", err)
	}
	if n, err := device.Read(make([]byte, 9)); n != 3 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := broker.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading: %v", err)
	}
}

// The wait for a device that sends nothing, or reads nothing, is limited.
func TestConnectionsDoNotWaitForEver(t *testing.T) {
	_, broker := connectPair(t, 10*time.Millisecond, 10*time.Millisecond)
	if _, err := broker.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("before the first packet: %v", err)
	}
	if err := broker.SetDeadline(time.Time{}); err != nil { // keepalive 0
		t.Fatal(err)
	}
	for {
		if _, err := broker.Write(make([]byte, 1<<20)); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("to a device that does not read: %v", err)
			}
			return
		}
	}
}

// A large packet that arrives byte by byte ends its connection, even if each byte is in time.
func TestSlowPackets(t *testing.T) {
	device, c := connectPair(t, time.Minute, time.Minute)
	refused := make(chan error, 1)
	broker := c.(*timedConn)
	broker.limits.pace = listen.Pace{Bytes: 1 << 10, Each: 100 * time.Millisecond, Whole: time.Minute}
	broker.limits.places = listen.NewPlaces(4)
	broker.limits.refuse = func(err error) { refused <- err }
	broker.loggedIn.Store(true)
	begun := time.Now()
	go func() {
		_, err := device.Write([]byte("\x30\xff\xff\x03" + strings.Repeat("x", 3<<10))) // of 65,535 bytes
		for ; err == nil; time.Sleep(10 * time.Millisecond) {
			_, err = device.Write([]byte("x"))
		}
	}()
	for {
		if _, err := broker.Read(make([]byte, 1<<10)); err != nil {
			if !errors.Is(err, errSlow) {
				t.Error(err)
			}
			break
		}
	}
	if err, duration := <-refused, time.Since(begun); !errors.Is(err, errSlow) || duration > 30*time.Second {
		t.Errorf("%v after %v", err, duration)
	}
	if broker.Close(); broker.limits.places.Used() != 0 {
		t.Error("the connection keeps its place")
	}
}

// An acknowledgement that cannot be written ends the connection: otherwise the device would
// wait for ever.
func TestUnwrittenAcknowledgement(t *testing.T) {
	ended := make(chan error, 1)
	a := newAcks(func(err error) { ended <- err })
	defer a.close()
	broken := errors.New("broken")
	a.enqueue(func() error { return broken }).release()
	if err := <-ended; err != broken {
		t.Error(err)
	}
}
