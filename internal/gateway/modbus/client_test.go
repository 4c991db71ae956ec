package modbus

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/loop"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// device is a server whose answers a test writes, byte by byte: no good server makes
// the faults that it needs.
type device struct {
	t      *testing.T
	l      net.Listener
	mu     sync.Mutex
	answer func(unit byte, code byte, at, count int) []byte // the PDU; nil: none
	wrap   func(id uint16, unit byte, pdu []byte) []byte    // the frame; nil: a good one
	asked  []string
	conns  int
}

func newDevice(t *testing.T) *device {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &device{t: t, l: l, answer: counting}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.conns++
			d.mu.Unlock()
			go d.serve(conn)
		}
	}()
	return d
}

// counting answers each register with its address, and each bit with its parity.
func counting(_, code byte, at, count int) []byte {
	if code <= 2 {
		b := make([]byte, 2+(count+7)/8)
		b[0], b[1] = code, byte(len(b)-2)
		for i := range count {
			b[2+i/8] |= byte((at+i)&1) << (i % 8)
		}
		return b
	}
	b := []byte{code, byte(2 * count)}
	for i := range count {
		b = binary.BigEndian.AppendUint16(b, uint16(at+i))
	}
	return b
}

func frame(id uint16, unit byte, pdu []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(pdu)+1))
	return append(append(b, unit), pdu...)
}

func (d *device) serve(conn net.Conn) {
	defer conn.Close()
	for req := make([]byte, 12); ; {
		if _, err := io.ReadFull(conn, req); err != nil {
			return
		}
		id, unit, code, at, count := binary.BigEndian.Uint16(req), req[6], req[7], int(binary.BigEndian.Uint16(req[8:])), int(binary.BigEndian.Uint16(req[10:]))
		d.mu.Lock()
		d.asked = append(d.asked, fmt.Sprintf("%d/%d:%d+%d", unit, code, at, count))
		answer, wrap := d.answer, d.wrap
		d.mu.Unlock()
		pdu := answer(unit, code, at, count)
		if wrap == nil {
			wrap = frame
		}
		if pdu != nil {
			b := wrap(id, unit, pdu)
			conn.Write(b)
			if b == nil {
				return
			}
		}
	}
}

func (d *device) set(answer func(unit, code byte, at, count int) []byte, wrap func(uint16, byte, []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.wrap = answer, wrap
}

// book has what a client gives to a gateway.
type book struct {
	samples chan string // "key gap time: values"
	missed  chan string
	hold    chan struct{} // closed: Take does not wait
	taking  chan struct{} // Take has begun
}

func newBook() *book {
	b := &book{samples: make(chan string, 1<<16), missed: make(chan string, 1<<16), hold: make(chan struct{}), taking: make(chan struct{}, 1<<16)}
	close(b.hold)
	return b
}

func (b *book) Take(ctx context.Context, m *gateway.Message) error {
	b.taking <- struct{}{}
	select {
	case <-b.hold:
	case <-ctx.Done():
		return gateway.ErrHeldBack
	}
	for _, p := range m.Parts {
		gap := ""
		if p.Gap {
			gap = " gap"
		}
		for i, at := range p.Times {
			n := len(p.X) / len(p.Times)
			b.samples <- fmt.Sprint(p.Key, gap, " ", at, ": ", p.X[i*n:(i+1)*n])
			gap = ""
		}
	}
	return nil
}

func (b *book) Miss(_ gateway.Input, n int, why error) { b.missed <- fmt.Sprint(n, " ", why) }

// hears waits for a line with a text.
func hears(t *testing.T, lines chan string, text string) string {
	t.Helper()
	var seen []string
	for end := time.After(pipelinetest.Patience); ; {
		select {
		case line := <-lines:
			if strings.Contains(line, text) {
				return line
			}
			seen = append(seen, line)
		case <-end:
			t.Fatalf("no line with %q in %q", text, seen[:min(len(seen), 10)])
		}
	}
}

func options(d *device) Options {
	return Options{Addr: d.l.Addr().String(), Unit: 1, Channels: []string{"x", "y"}, Interval: 20 * time.Millisecond, Timeout: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Registers: map[string]string{"p/x": "holding:5:int16", "p/y": "holding:6:int16 * 2"}}
}

func poller(t *testing.T, to *book, o Options) (end func()) {
	t.Helper()
	c, err := newClient(to, o)
	if err != nil {
		t.Fatal(err)
	}
	end = loop.Run(c.run)
	t.Cleanup(end)
	return end
}

// Registers that touch are one request; the samples have the times of the polls.
func TestPoll(t *testing.T) {
	d, b := newDevice(t), newBook()
	o := options(d)
	o.Timeout = pipelinetest.Patience // a slow machine is no fault here: one connection is wanted
	o.Registers = map[string]string{"p/x": "holding:5:int16", "p/y": "holding:6:int16 * 2", "q/x": "coil:3", "q/y": "7/input:1:uint32"}
	poller(t, b, o)
	for range 3 {
		var at int64
		line := hears(t, b.samples, "p")
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, " gap", ""), "p %d: [5 12]", &at); err != nil || at%int64(o.Interval) != 0 || time.Since(time.Unix(0, at)) > pipelinetest.Patience {
			t.Errorf("%s: %v", line, err)
		}
		hears(t, b.samples, fmt.Sprintf(" %d: [1 65538]", at))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := slices.Compact(slices.Sorted(slices.Values(d.asked))); !slices.Equal(got, []string{"1/1:3+1", "1/3:5+2", "7/4:1+2"}) || d.conns != 1 {
		t.Errorf("%q over %d connections", got, d.conns)
	}
}

// faults are what a device may do instead of answering well, and what is said.
var faults = []struct {
	name   string
	answer func(unit, code byte, at, count int) []byte
	wrap   func(uint16, byte, []byte) []byte
}{
	{"exception 1", except(1), nil},
	{"exception 2", except(2), nil},
	{"exception 3", except(3), nil},
	{"exception 4", except(4), nil},
	{"exception 6", except(6), nil},
	{"exception 10", except(10), nil},
	{"exception 11", except(11), nil},
	{"exception 77", except(77), nil},
	{"exception of another function", func(byte, byte, int, int) []byte { return []byte{0x84, 2} }, nil},
	{"no answer", func(byte, byte, int, int) []byte { return nil }, nil},
	{"connection closed", counting, func(uint16, byte, []byte) []byte { return nil }},
	{"half of a frame, then silence", counting, func(id uint16, u byte, p []byte) []byte { return frame(id, u, p)[:9] }},
	{"another function", func(_, _ byte, at, n int) []byte { return counting(0, 4, at, n) }, nil},
	{"fewer registers", func(_, c byte, at, n int) []byte { return counting(0, c, at, n-1) }, nil},
	{"more registers", func(_, c byte, at, n int) []byte { return counting(0, c, at, n+1) }, nil},
	{"a count of bytes that is wrong", func(_, c byte, at, n int) []byte { b := counting(0, c, at, n); b[1] = 99; return b }, nil},
	{"fewer bytes than it says", func(_, c byte, at, n int) []byte { b := counting(0, c, at, n); return b[:len(b)-1] }, nil},
	{"more bytes than it says", func(_, c byte, at, n int) []byte { return append(counting(0, c, at, n), 0) }, nil},
	{"no data", func(_, c byte, _, _ int) []byte { return []byte{c} }, nil},
	{"another transaction", counting, func(id uint16, u byte, p []byte) []byte { return frame(id+7, u, p) }},
	{"another unit", counting, func(id uint16, u byte, p []byte) []byte { return frame(id, u+1, p) }},
	{"another protocol", counting, func(id uint16, u byte, p []byte) []byte { b := frame(id, u, p); b[3] = 9; return b }},
	{"a length of 0", counting, func(id uint16, u byte, p []byte) []byte { b := frame(id, u, p); b[4], b[5] = 0, 0; return b }},
	{"a length of 65535", counting, func(id uint16, u byte, p []byte) []byte { b := frame(id, u, p); b[4], b[5] = 0xff, 0xff; return b }},
	{"HTTP", counting, func(uint16, byte, []byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }},
	{"RTU", counting, func(_ uint16, u byte, p []byte) []byte {
		return append(append([]byte{u}, p...), 0x12, 0x34, 0, 0, 0, 0)
	}},
}

func except(code byte) func(unit, c byte, at, count int) []byte {
	return func(_, c byte, _, _ int) []byte { return []byte{c | 0x80, code} }
}

// fault lets a device have a fault, and returns what is said of it. It makes no sample,
// and when it is over the next one has the flag gap.
func fault(t *testing.T, answer func(unit, code byte, at, count int) []byte, wrap func(uint16, byte, []byte) []byte) string {
	d, b := newDevice(t), newBook()
	o := options(d)
	o.Timeout = 2 * time.Second // no other fault is taken for silence on a slow machine
	poller(t, b, o)
	hears(t, b.samples, "p gap ")
	hears(t, b.samples, "p ")
	d.set(answer, wrap)
	_, said, _ := strings.Cut(hears(t, b.missed, "unit 1"), " ")
	for len(b.samples) > 0 {
		<-b.samples
	}
	d.set(counting, nil)
	if line := hears(t, b.samples, "p "); !strings.HasPrefix(line, "p gap ") {
		t.Errorf("after it: %s", line)
	}
	return strings.ReplaceAll(said, d.l.Addr().String(), "plc:502")
}

// A register that the device does not have is found, and the other stream goes on.
func TestIllegalAddress(t *testing.T) {
	d, b := newDevice(t), newBook()
	d.set(func(u, c byte, at, n int) []byte {
		if at <= 12 && 12 < at+n {
			return except(2)(u, c, at, n)
		}
		return counting(u, c, at, n)
	}, nil)
	o := options(d)
	o.Timeout = pipelinetest.Patience // after a unit's silence everything is asked for again
	o.Registers = map[string]string{}
	for i, key := range []string{"p", "q", "r", "s"} {
		o.Registers[key+"/x"], o.Registers[key+"/y"] = fmt.Sprintf("holding:%d:int16", 8+2*i), fmt.Sprintf("holding:%d:int16", 9+2*i)
	}
	poller(t, b, o)
	if said := hears(t, b.missed, "holding register 12 (r/x)"); !strings.Contains(said, "1 modbus: server") {
		t.Error(said)
	}
	for range 20 {
		if line := hears(t, b.samples, ""); strings.HasPrefix(line, "r") {
			t.Error(line)
		}
	}
	d.mu.Lock()
	first := len(d.asked)
	d.mu.Unlock()
	hears(t, b.samples, "s ")
	hears(t, b.samples, "s ")
	d.mu.Lock()
	defer d.mu.Unlock()
	if again := slices.Compact(slices.Sorted(slices.Values(d.asked[first:]))); slices.Contains(again, "1/3:8+8") {
		t.Errorf("asked again for all: %q", again)
	}
}

// A unit that does not answer is left alone for longer and longer, and the others are
// read.
func TestUnits(t *testing.T) {
	d, b := newDevice(t), newBook()
	d.set(func(u, c byte, at, n int) []byte {
		if u == 2 {
			return nil
		}
		return counting(u, c, at, n)
	}, nil)
	o := options(d)
	o.Timeout = 100 * time.Millisecond
	o.Registers = map[string]string{"p/x": "1/coil:0", "p/y": "1/coil:1", "q/x": "2/coil:0", "q/y": "2/coil:1", "s/x": "3/coil:0", "s/y": "3/coil:1"}
	poller(t, b, o)
	hears(t, b.missed, "unit 2, coils 0 to 1 (q/x, q/y): no answer within 100ms")
	for begin := time.Now(); time.Since(begin) < 3*firstWait; {
		hears(t, b.samples, "p ")
		hears(t, b.samples, "s ")
	}
	d.mu.Lock()
	asked := 0
	for _, a := range d.asked {
		if strings.HasPrefix(a, "2/") {
			asked++
		}
	}
	d.mu.Unlock()
	if asked > 10 { // at 0, .5 s and 1.5 s; without waiting some 50 times
		t.Errorf("asked %d times", asked)
	}
	d.set(counting, nil)
	hears(t, b.samples, "q gap ")
}

// While the gateway holds back, polls are left out, counted, and the next sample has
// the flag gap.
func TestHoldBack(t *testing.T) {
	d, b := newDevice(t), newBook()
	b.hold = make(chan struct{})
	poller(t, b, options(d))
	<-b.taking
	time.Sleep(2 * heldAfter)
	close(b.hold)
	// On a slow machine polls may have been left out before, for another reason.
	if said := hears(t, b.missed, gateway.ErrHeldBack.Error()); !strings.Contains(said, "polls are left out") {
		t.Error(said)
	}
	hears(t, b.samples, "p gap ") // the one that was held
	hears(t, b.samples, "p gap ")
}

// A gateway that takes a little longer than a short interval does not hold back: the
// interval is too short, and the log says so. One poll is one.
func TestBusy(t *testing.T) {
	for _, c := range []struct {
		took, interval time.Duration
		held           bool
	}{{3 * time.Millisecond, 5 * time.Millisecond, false}, {50 * time.Millisecond, 5 * time.Millisecond, false}, {heldAfter + 1, 5 * time.Millisecond, true}, {400 * time.Millisecond, time.Second, false}, {600 * time.Millisecond, time.Second, true}} {
		if heldBack(c.took, c.interval) != c.held {
			t.Errorf("%v at an interval of %v: holds back is %v", c.took, c.interval, !c.held)
		}
	}
	b := newBook()
	c, err := newClient(b, options(newDevice(t)))
	if err != nil {
		t.Fatal(err)
	}
	c.miss(1)
	if said := hears(t, b.missed, "1 poll is left out"); !strings.Contains(said, "raise it") {
		t.Error(said)
	}
}

// A device that answers more slowly than it is polled: the polls between are left out,
// and each sample has the flag gap.
func TestSlow(t *testing.T) {
	d, b := newDevice(t), newBook()
	o := options(d)
	d.set(func(u, c byte, at, n int) []byte {
		time.Sleep(3 * o.Interval)
		return counting(u, c, at, n)
	}, nil)
	poller(t, b, o)
	hears(t, b.missed, "the one before has taken longer than gateway.modbus.interval (20ms): raise it")
	for range 3 {
		if line := hears(t, b.samples, "p "); !strings.HasPrefix(line, "p gap ") {
			t.Error(line)
		}
	}
}

// A server that is away is dialled again; the connection ends with the client.
func TestAway(t *testing.T) {
	d, b := newDevice(t), newBook()
	o := options(d)
	d.l.Close()
	end := poller(t, b, o)
	hears(t, b.missed, "no connection")
	l, err := net.Listen("tcp", o.Addr)
	for end := time.Now().Add(pipelinetest.Patience); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		l, err = net.Listen("tcp", o.Addr) // another program may have been given the port meanwhile
	}
	if err != nil {
		t.Fatal(err)
	}
	d.l = l
	t.Cleanup(func() { l.Close() })
	gone := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			d.serve(conn)
		}
		gone <- err
	}()
	hears(t, b.samples, "p gap ")
	end()
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

// Close does not wait for a device that does not answer.
func TestCloseAtOnce(t *testing.T) {
	d := newDevice(t)
	d.set(func(byte, byte, int, int) []byte { return nil }, nil)
	o := options(d)
	o.Timeout = time.Hour
	end := poller(t, newBook(), o)
	for asked := 0; asked == 0; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		asked = len(d.asked)
		d.mu.Unlock()
	}
	end() // the test ends within its own limit
}

func TestPlan(t *testing.T) {
	const interval = 100
	for _, c := range []struct{ due, now, missed, then int64 }{
		{1000, 1000, 0, 1000}, {1000, 1050, 0, 1000}, {1000, 1051, 1, 1100}, {1000, 1149, 1, 1100}, {1000, 1150, 2, 1200}, {1000, 99951, 990, 100000},
		{1000, 950, 0, 1000},   // a timer that fires early
		{1000, 320, -1, 400},   // a clock that was set back
		{1000, -320, -1, -200}, // before 1970
	} {
		if missed, then := plan(c.due, c.now, interval); missed != c.missed || then != c.then {
			t.Errorf("due %d, now %d: %d, %d, want %d, %d", c.due, c.now, missed, then, c.missed, c.then)
		}
	}
}

// FuzzAnswer gives a request any bytes as its answer. It ends with as many bytes as were
// asked for, or an error.
func FuzzAnswer(f *testing.F) {
	good := frame(1, 1, counting(1, 3, 5, 2))
	f.Add(byte(3), uint16(2), good)
	f.Add(byte(1), uint16(9), frame(1, 1, counting(1, 1, 5, 9)))
	f.Add(byte(4), uint16(125), frame(1, 1, []byte{0x84, 2}))
	for _, fault := range faults {
		if pdu := fault.answer(1, 3, 5, 2); pdu != nil {
			b := frame(1, 1, pdu)
			if fault.wrap != nil {
				b = fault.wrap(1, 1, pdu)
			}
			f.Add(byte(3), uint16(2), b)
		}
	}
	f.Fuzz(func(t *testing.T, code byte, count uint16, b []byte) {
		q := request{unit: 1, at: 5, count: max(1, int(count)%125)}
		for _, table := range tables {
			if table.code == code%4+1 {
				q.table = table
			}
		}
		ours, theirs := net.Pipe()
		l := newLink(t.Context(), ours, time.Hour)
		defer l.close()
		go func() {
			io.ReadFull(theirs, make([]byte, 12))
			theirs.Write(b)
			theirs.Close()
		}()
		got, err := l.ask(&q)
		size := 2 * q.count
		if q.table.bits() {
			size = (q.count + 7) / 8
		}
		if (err == nil) != (len(got) == size) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// Two servers: each stream comes from its own, and one that is silent holds up only
// its streams.
func TestSeveralServers(t *testing.T) {
	here, there, b := newDevice(t), newDevice(t), newBook()
	o := options(here)
	o.Addr += ", " + there.l.Addr().String()
	at := there.l.Addr().String() + "/"
	o.Registers = map[string]string{"p/x": "holding:5:int16", "p/y": "coil:1", "q/x": at + "holding:7:int16", "q/y": at + "3/input:8:int16 * 2"}
	all, err := newClients(b, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Cleanup(loop.Run(c.run))
	}
	want := map[string]string{"p": ": [5 1]", "q": ": [7 16]"}
	for range 2 { // each has a gap before its first sample; either may come first
		line := hears(t, b.samples, " gap ")
		key, _, _ := strings.Cut(line, " ")
		if want[key] == "" || !strings.HasSuffix(line, want[key]) {
			t.Errorf("a first sample is %q, want one of each of %v", line, want)
		}
		delete(want, key)
	}
	there.set(func(byte, byte, int, int) []byte { return nil }, nil)
	hears(t, b.missed, "server "+there.l.Addr().String())
	for range 3 {
		hears(t, b.samples, ": [5 1]")
	}
}
