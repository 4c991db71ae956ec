package opcua

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gopcua "github.com/gopcua/opcua/server"
	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/loop"
)

// startChanged starts a server with a variable X (a number) and a variable Y (three numbers),
// and a proxy that may change the server's messages.
func startChanged(t *testing.T, change func([]byte)) Options {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	url, between := listenBetween(t, fmt.Sprintf("127.0.0.1:%d", port), change)
	s := gopcua.New(gopcua.EnableSecurity("None", ua.MessageSecurityModeNone), gopcua.EnableAuthMode(ua.UserTokenTypeAnonymous),
		gopcua.EndPoint("127.0.0.1", port), gopcua.EndPoint("127.0.0.1", between)) // the server answers for the proxy's port, too
	space := gopcua.NewNodeNameSpace(s, "plant")
	root, err := s.Namespace(0)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*gopcua.Node
	for name, value := range map[string]any{"X": float32(1), "Y": []int32{11, 22, 33}} {
		nodes = append(nodes, space.AddNewVariableStringNode(name, value))
		root.Objects().AddRef(nodes[len(nodes)-1], 33, true)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	go func() { // the library's server loses the first value of a variable now and then
		for ctx := t.Context(); ctx.Err() == nil; time.Sleep(time.Second) {
			for _, n := range nodes {
				space.ChangeNotification(n.ID())
			}
		}
	}()
	node := func(name string) string { return fmt.Sprintf("ns=%d;s=%s", space.ID(), name) }
	return Options{URL: url, Policy: "auto", Login: "auto", Channels: []string{"x", "y"}, Sampler: plain{},
		Nodes: map[string]string{"press/x": node("X"), "press/y": node("Y")}, Publishing: 50 * time.Millisecond, Queue: 20}
}

// listenBetween forwards connections to a server. The function change may change the server's
// messages.
func listenBetween(t *testing.T, server string, change func([]byte)) (url string, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go func() { io.Copy(server, client); server.Close() }()
			go func() {
				defer client.Close()
				head := make([]byte, 8)
				for {
					if _, err := io.ReadFull(server, head); err != nil {
						return
					}
					b := make([]byte, binary.LittleEndian.Uint32(head[4:]))
					copy(b, head)
					if _, err := io.ReadFull(server, b[8:]); err != nil {
						return
					}
					change(b)
					if _, err := client.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "opc.tcp://" + l.Addr().String(), l.Addr().(*net.TCPAddr).Port
}

// Four changed bytes in a server's message make the library request 32 GB of memory, or panic.
// The client logs the crash, reconnects, and subscribes when the bytes are right. Nothing else
// in its process notices.
func TestChangedBytesEndOneSessionOnly(t *testing.T) {
	for _, w := range []struct {
		name, want string
		change     func(b []byte) bool
	}{
		{"a table of 2^31-1 texts in the first answer", "fatal error: ", func(b []byte) bool {
			i := bytes.Index(b, []byte{1, 0, 0xc1, 1}) // id of the answer
			if !bytes.HasPrefix(b, []byte("OPNF")) || i < 0 {
				return false
			}
			binary.LittleEndian.PutUint32(b[i+4+8+4+4+1:], 1<<31-1)
			return true
		}},
		{"an array of -2 values", "panic: reflect.MakeSlice: negative len", func(b []byte) bool {
			i := bytes.Index(b, []byte{0x86, 3, 0, 0, 0, 11, 0, 0, 0}) // an array of three int32, the first is 11
			if i < 0 {
				return false
			}
			binary.LittleEndian.PutUint32(b[i+1:], 1<<32-2)
			return true
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			var changed atomic.Bool
			o := startChanged(t, func(b []byte) {
				if !changed.Load() && w.change(b) {
					changed.Store(true)
				}
			})
			b, _ := startClient(t, o)
			if got := b.waitFor(t, "failed the process that reads the server has ended ("); !bytes.HasPrefix([]byte(got), []byte(w.want)) {
				t.Errorf("%s, want %s", got, w.want)
			}
			b.waitFor(t, subscribedLine)
		})
	}
}

// A hanging server is disconnected after a bounded time; the client resubscribes when the
// server answers.
func TestServerThatHangsIsLeft(t *testing.T) {
	var mu sync.RWMutex // write-locked while the server hangs
	o := startChanged(t, func([]byte) {
		mu.RLock()
		defer mu.RUnlock()
	})
	b := make(book, 1<<16)
	o.Log = slog.New(b)
	c, err := newClient(b, o)
	if err != nil {
		t.Fatal(err)
	}
	c.wait = 2 * time.Second
	t.Cleanup(loop.Run(c.reconnect))
	b.waitFor(t, subscribedLine)
	mu.Lock()
	start := time.Now()
	if got := b.waitFor(t, "failed "); !strings.Contains(got, "does not answer") {
		t.Error(got)
	}
	if duration := time.Since(start); duration > 20*time.Second { // 3 s of silence, and 2 s for an answer
		t.Errorf("the server is left after %v", duration)
	}
	mu.Unlock()
	b.waitFor(t, "OPC UA: the session was recreated: values that changed since the previous session are missing")
}

// If a server answers but its subscription is dead, the session ends if the subscription has
// sent the server's clock before.
func TestSilentSubscription(t *testing.T) {
	errGone := errors.New("gone")
	for _, w := range []struct {
		quiet  time.Duration
		clocks int
		answer error
		ends   bool
	}{
		{time.Second, 9, errGone, false},
		{time.Minute, 9, nil, true},
		{time.Minute, 1, nil, false}, // this server's clock does not change, or cannot be monitored
		{time.Minute, 0, errGone, true},
	} {
		if err := (&watch{func() error { return w.answer }, 15 * time.Second, time.Now().Add(-w.quiet), w.clocks}).checkSilence(); (err != nil) != w.ends {
			t.Errorf("%+v: %v", w, err)
		}
	}
}
