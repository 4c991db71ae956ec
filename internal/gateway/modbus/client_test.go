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

// device is a server with answers from the test, byte by byte, because no correct server makes
// these faults.
type device struct {
	t        *testing.T
	l        net.Listener
	mu       sync.Mutex
	answer   func(unit byte, code byte, at, count int) []byte // returns the PDU; nil: no answer
	wrap     func(id uint16, unit byte, pdu []byte) []byte    // makes the frame; nil: a correct frame
	requests []string
	conns    int
}

func newDevice(t *testing.T) *device {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &device{t: t, l: l, answer: answerAddresses}
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
			go d.serveRequests(conn)
		}
	}()
	return d
}

// answerAddresses answers each register with its address, and each bit with its parity.
func answerAddresses(_, code byte, address, count int) []byte {
	if code <= 2 {
		b := make([]byte, 2+(count+7)/8)
		b[0], b[1] = code, byte(len(b)-2)
		for i := range count {
			b[2+i/8] |= byte((address+i)&1) << (i % 8)
		}
		return b
	}
	b := []byte{code, byte(2 * count)}
	for i := range count {
		b = binary.BigEndian.AppendUint16(b, uint16(address+i))
	}
	return b
}

func makeFrame(id uint16, unit byte, pdu []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(pdu)+1))
	return append(append(b, unit), pdu...)
}

func (d *device) serveRequests(conn net.Conn) {
	defer conn.Close()
	for req := make([]byte, 12); ; {
		if _, err := io.ReadFull(conn, req); err != nil {
			return
		}
		id, unit, code, address, count := binary.BigEndian.Uint16(req), req[6], req[7], int(binary.BigEndian.Uint16(req[8:])), int(binary.BigEndian.Uint16(req[10:]))
		d.mu.Lock()
		d.requests = append(d.requests, fmt.Sprintf("%d/%d:%d+%d", unit, code, address, count))
		answer, wrap := d.answer, d.wrap
		d.mu.Unlock()
		pdu := answer(unit, code, address, count)
		if wrap == nil {
			wrap = makeFrame
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

func (d *device) setAnswer(answer func(unit, code byte, address, count int) []byte, wrap func(uint16, byte, []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.wrap = answer, wrap
}

// book is a gateway that records samples.
type book struct {
	samples chan string // "key gap time: values"
	missed  chan string
	hold    chan struct{} // closed: Take returns at once
	taking  chan struct{} // gets one element per call of Take
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

// waitFor waits for a line that contains a text.
func waitFor(t *testing.T, lines chan string, text string) string {
	t.Helper()
	var others []string
	for end := time.After(pipelinetest.Patience); ; {
		select {
		case line := <-lines:
			if strings.Contains(line, text) {
				return line
			}
			others = append(others, line)
		case <-end:
			t.Fatalf("no line with %q in %q", text, others[:min(len(others), 10)])
		}
	}
}

func testOptions(d *device) Options {
	return Options{Addr: d.l.Addr().String(), Unit: 1, Channels: []string{"x", "y"}, Interval: 20 * time.Millisecond, Timeout: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Registers: map[string]string{"p/x": "holding:5:int16", "p/y": "holding:6:int16 * 2"}}
}

func startClient(t *testing.T, gateway *book, o Options) (stop func()) {
	t.Helper()
	c, err := newClient(gateway, o)
	if err != nil {
		t.Fatal(err)
	}
	stop = loop.Run(c.pollUntil)
	t.Cleanup(stop)
	return stop
}

// One request reads adjacent registers; the samples have the times of the polls.
func TestPoll(t *testing.T) {
	d, b := newDevice(t), newBook()
	o := testOptions(d)
	o.Timeout = pipelinetest.Patience // a slow computer is no fault in this test: the client must keep one connection
	o.Registers = map[string]string{"p/x": "holding:5:int16", "p/y": "holding:6:int16 * 2", "q/x": "coil:3", "q/y": "7/input:1:uint32"}
	startClient(t, b, o)
	for range 3 {
		var stamp int64
		line := waitFor(t, b.samples, "p")
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, " gap", ""), "p %d: [5 12]", &stamp); err != nil || stamp%int64(o.Interval) != 0 || time.Since(time.Unix(0, stamp)) > pipelinetest.Patience {
			t.Errorf("%s: %v", line, err)
		}
		waitFor(t, b.samples, fmt.Sprintf(" %d: [1 65538]", stamp))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := slices.Compact(slices.Sorted(slices.Values(d.requests))); !slices.Equal(got, []string{"1/1:3+1", "1/3:5+2", "7/4:1+2"}) || d.conns != 1 {
		t.Errorf("%q over %d connections", got, d.conns)
	}
}

// faults are possible faults of a device.
var faults = []struct {
	name   string
	answer func(unit, code byte, at, count int) []byte
	wrap   func(uint16, byte, []byte) []byte
}{
	{"exception 1", answerException(1), nil},
	{"exception 2", answerException(2), nil},
	{"exception 3", answerException(3), nil},
	{"exception 4", answerException(4), nil},
	{"exception 6", answerException(6), nil},
	{"exception 10", answerException(10), nil},
	{"exception 11", answerException(11), nil},
	{"exception 77", answerException(77), nil},
	{"exception of another function", func(byte, byte, int, int) []byte { return []byte{0x84, 2} }, nil},
	{"no answer", func(byte, byte, int, int) []byte { return nil }, nil},
	{"connection closed", answerAddresses, func(uint16, byte, []byte) []byte { return nil }},
	{"half of a frame, then silence", answerAddresses, func(id uint16, u byte, p []byte) []byte { return makeFrame(id, u, p)[:9] }},
	{"another function", func(_, _ byte, at, n int) []byte { return answerAddresses(0, 4, at, n) }, nil},
	{"fewer registers", func(_, c byte, at, n int) []byte { return answerAddresses(0, c, at, n-1) }, nil},
	{"more registers", func(_, c byte, at, n int) []byte { return answerAddresses(0, c, at, n+1) }, nil},
	{"a count of bytes that is wrong", func(_, c byte, at, n int) []byte { b := answerAddresses(0, c, at, n); b[1] = 99; return b }, nil},
	{"fewer bytes than it says", func(_, c byte, at, n int) []byte { b := answerAddresses(0, c, at, n); return b[:len(b)-1] }, nil},
	{"more bytes than it says", func(_, c byte, at, n int) []byte { return append(answerAddresses(0, c, at, n), 0) }, nil},
	{"no data", func(_, c byte, _, _ int) []byte { return []byte{c} }, nil},
	{"another transaction", answerAddresses, func(id uint16, u byte, p []byte) []byte { return makeFrame(id+7, u, p) }},
	{"another unit", answerAddresses, func(id uint16, u byte, p []byte) []byte { return makeFrame(id, u+1, p) }},
	{"another protocol", answerAddresses, func(id uint16, u byte, p []byte) []byte { b := makeFrame(id, u, p); b[3] = 9; return b }},
	{"a length of 0", answerAddresses, func(id uint16, u byte, p []byte) []byte { b := makeFrame(id, u, p); b[4], b[5] = 0, 0; return b }},
	{"a length of 65535", answerAddresses, func(id uint16, u byte, p []byte) []byte { b := makeFrame(id, u, p); b[4], b[5] = 0xff, 0xff; return b }},
	{"HTTP", answerAddresses, func(uint16, byte, []byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }},
	{"RTU", answerAddresses, func(_ uint16, u byte, p []byte) []byte {
		return append(append([]byte{u}, p...), 0x12, 0x34, 0, 0, 0, 0)
	}},
}

func answerException(code byte) func(unit, c byte, address, count int) []byte {
	return func(_, c byte, _, _ int) []byte { return []byte{c | 0x80, code} }
}

// provokeFault makes a device fail and returns the error of the client. A failed poll makes no
// sample, and the next sample has the flag gap.
func provokeFault(t *testing.T, answer func(unit, code byte, address, count int) []byte, wrap func(uint16, byte, []byte) []byte) string {
	d, b := newDevice(t), newBook()
	o := testOptions(d)
	o.Timeout = 2 * time.Second // a slow computer must not turn other faults into timeouts
	startClient(t, b, o)
	waitFor(t, b.samples, "p gap ")
	waitFor(t, b.samples, "p ")
	d.setAnswer(answer, wrap)
	_, message, _ := strings.Cut(waitFor(t, b.missed, "unit 1"), " ")
	for len(b.samples) > 0 {
		<-b.samples
	}
	d.setAnswer(answerAddresses, nil)
	if line := waitFor(t, b.samples, "p "); !strings.HasPrefix(line, "p gap ") {
		t.Errorf("after it: %s", line)
	}
	return strings.ReplaceAll(message, d.l.Addr().String(), "plc:502")
}

// The client finds a register that the device lacks, and continues to read the other stream.
func TestIllegalAddress(t *testing.T) {
	d, b := newDevice(t), newBook()
	d.setAnswer(func(u, c byte, address, n int) []byte {
		if address <= 12 && 12 < address+n {
			return answerException(2)(u, c, address, n)
		}
		return answerAddresses(u, c, address, n)
	}, nil)
	o := testOptions(d)
	o.Timeout = pipelinetest.Patience // after a timeout the client tries the whole request
	o.Registers = map[string]string{}
	for i, key := range []string{"p", "q", "r", "s"} {
		o.Registers[key+"/x"], o.Registers[key+"/y"] = fmt.Sprintf("holding:%d:int16", 8+2*i), fmt.Sprintf("holding:%d:int16", 9+2*i)
	}
	startClient(t, b, o)
	if message := waitFor(t, b.missed, "holding register 12 (r/x)"); !strings.Contains(message, "1 modbus: server") {
		t.Error(message)
	}
	for range 20 {
		if line := waitFor(t, b.samples, ""); strings.HasPrefix(line, "r") {
			t.Error(line)
		}
	}
	d.mu.Lock()
	first := len(d.requests)
	d.mu.Unlock()
	waitFor(t, b.samples, "s ")
	waitFor(t, b.samples, "s ")
	d.mu.Lock()
	defer d.mu.Unlock()
	if retry := slices.Compact(slices.Sorted(slices.Values(d.requests[first:]))); slices.Contains(retry, "1/3:8+8") {
		t.Errorf("repeated the whole request: %q", retry)
	}
}

// A silent unit gets requests at growing intervals while the client reads the other units.
func TestUnits(t *testing.T) {
	d, b := newDevice(t), newBook()
	d.setAnswer(func(u, c byte, address, n int) []byte {
		if u == 2 {
			return nil
		}
		return answerAddresses(u, c, address, n)
	}, nil)
	o := testOptions(d)
	o.Timeout = 100 * time.Millisecond
	o.Registers = map[string]string{"p/x": "1/coil:0", "p/y": "1/coil:1", "q/x": "2/coil:0", "q/y": "2/coil:1", "s/x": "3/coil:0", "s/y": "3/coil:1"}
	startClient(t, b, o)
	waitFor(t, b.missed, "unit 2, coils 0 to 1 (q/x, q/y): no answer within 100ms")
	for start := time.Now(); time.Since(start) < 3*firstWait; {
		waitFor(t, b.samples, "p ")
		waitFor(t, b.samples, "s ")
	}
	d.mu.Lock()
	requests := 0
	for _, a := range d.requests {
		if strings.HasPrefix(a, "2/") {
			requests++
		}
	}
	d.mu.Unlock()
	if requests > 10 { // at 0, .5 s and 1.5 s; without waits about 50 requests
		t.Errorf("asked %d times", requests)
	}
	d.setAnswer(answerAddresses, nil)
	waitFor(t, b.samples, "q gap ")
}

// Under backpressure the client skips and counts polls, and the next sample has the flag gap.
func TestHoldBack(t *testing.T) {
	d, b := newDevice(t), newBook()
	b.hold = make(chan struct{})
	startClient(t, b, testOptions(d))
	<-b.taking
	time.Sleep(2 * minHold)
	close(b.hold)
	// On a slow computer earlier polls may have been skipped for another reason.
	if message := waitFor(t, b.missed, gateway.ErrHeldBack.Error()); !strings.Contains(message, "polls were skipped") {
		t.Error(message)
	}
	waitFor(t, b.samples, "p gap ") // the delayed sample
	waitFor(t, b.samples, "p gap ")
}

// A gateway that takes a little longer than a short interval is not under backpressure: the
// interval is too short, and the log reports this. One skipped poll counts as one.
func TestBusy(t *testing.T) {
	for _, c := range []struct {
		duration, interval time.Duration
		held               bool
	}{{3 * time.Millisecond, 5 * time.Millisecond, false}, {50 * time.Millisecond, 5 * time.Millisecond, false}, {minHold + 1, 5 * time.Millisecond, true}, {400 * time.Millisecond, time.Second, false}, {600 * time.Millisecond, time.Second, true}} {
		if heldBack(c.duration, c.interval) != c.held {
			t.Errorf("%v at an interval of %v: holds back is %v", c.duration, c.interval, !c.held)
		}
	}
	b := newBook()
	c, err := newClient(b, testOptions(newDevice(t)))
	if err != nil {
		t.Fatal(err)
	}
	c.reportMissed(1)
	if message := waitFor(t, b.missed, "1 poll was skipped"); !strings.Contains(message, "raise the interval") {
		t.Error(message)
	}
}

// If a device answers more slowly than the interval, the client skips polls, and each sample
// has the flag gap.
func TestSlow(t *testing.T) {
	d, b := newDevice(t), newBook()
	o := testOptions(d)
	d.setAnswer(func(u, c byte, address, n int) []byte {
		time.Sleep(3 * o.Interval)
		return answerAddresses(u, c, address, n)
	}, nil)
	startClient(t, b, o)
	waitFor(t, b.missed, "the previous poll has taken longer than gateway.modbus.interval (20ms): raise the interval")
	for range 3 {
		if line := waitFor(t, b.samples, "p "); !strings.HasPrefix(line, "p gap ") {
			t.Error(line)
		}
	}
}

// The client reconnects to a server after its restart; the connection ends with the client.
func TestAway(t *testing.T) {
	d, b := newDevice(t), newBook()
	o := testOptions(d)
	d.l.Close()
	end := startClient(t, b, o)
	waitFor(t, b.missed, "no connection")
	l, err := net.Listen("tcp", o.Addr)
	for end := time.Now().Add(pipelinetest.Patience); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		l, err = net.Listen("tcp", o.Addr) // another program may have taken the port meanwhile
	}
	if err != nil {
		t.Fatal(err)
	}
	d.l = l
	t.Cleanup(func() { l.Close() })
	closed := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			d.serveRequests(conn)
		}
		closed <- err
	}()
	waitFor(t, b.samples, "p gap ")
	end()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// Close does not wait for a silent device.
func TestCloseAtOnce(t *testing.T) {
	d := newDevice(t)
	d.setAnswer(func(byte, byte, int, int) []byte { return nil }, nil)
	o := testOptions(d)
	o.Timeout = time.Hour
	end := startClient(t, newBook(), o)
	for asked := 0; asked == 0; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		asked = len(d.requests)
		d.mu.Unlock()
	}
	end() // the test's own time limit detects a hang
}

func TestPlan(t *testing.T) {
	const interval = 100
	for _, c := range []struct{ due, time, missed, then int64 }{
		{1000, 1000, 0, 1000}, {1000, 1050, 0, 1000}, {1000, 1051, 1, 1100}, {1000, 1149, 1, 1100}, {1000, 1150, 2, 1200}, {1000, 99951, 990, 100000},
		{1000, 950, 0, 1000},   // a timer that fires early
		{1000, 320, -1, 400},   // a clock that was set back
		{1000, -320, -1, -200}, // before 1970
	} {
		if missed, then := planPoll(c.due, c.time, interval); missed != c.missed || then != c.then {
			t.Errorf("due %d, now %d: %d, %d, want %d, %d", c.due, c.time, missed, then, c.missed, c.then)
		}
	}
}

// FuzzAnswer answers a request with arbitrary bytes. The result is the requested number of
// bytes, or an error.
func FuzzAnswer(f *testing.F) {
	good := makeFrame(1, 1, answerAddresses(1, 3, 5, 2))
	f.Add(byte(3), uint16(2), good)
	f.Add(byte(1), uint16(9), makeFrame(1, 1, answerAddresses(1, 1, 5, 9)))
	f.Add(byte(4), uint16(125), makeFrame(1, 1, []byte{0x84, 2}))
	for _, fault := range faults {
		if pdu := fault.answer(1, 3, 5, 2); pdu != nil {
			b := makeFrame(1, 1, pdu)
			if fault.wrap != nil {
				b = fault.wrap(1, 1, pdu)
			}
			f.Add(byte(3), uint16(2), b)
		}
	}
	f.Fuzz(func(t *testing.T, code byte, count uint16, b []byte) {
		q := request{unit: 1, address: 5, count: max(1, int(count)%125)}
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
		got, err := l.request(&q)
		size := 2 * q.count
		if q.table.isBits() {
			size = (q.count + 7) / 8
		}
		if (err == nil) != (len(got) == size) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// With two servers, each stream comes from its server, and a silent server delays only its own
// streams.
func TestSeveralServers(t *testing.T) {
	here, there, b := newDevice(t), newDevice(t), newBook()
	o := testOptions(here)
	o.Addr += ", " + there.l.Addr().String()
	address := there.l.Addr().String() + "/"
	o.Registers = map[string]string{"p/x": "holding:5:int16", "p/y": "coil:1", "q/x": address + "holding:7:int16", "q/y": address + "3/input:8:int16 * 2"}
	all, err := newClients(b, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Cleanup(loop.Run(c.pollUntil))
	}
	want := map[string]string{"p": ": [5 1]", "q": ": [7 16]"}
	for range 2 { // each stream has a gap before its first sample; the order of the streams varies
		line := waitFor(t, b.samples, " gap ")
		key, _, _ := strings.Cut(line, " ")
		if want[key] == "" || !strings.HasSuffix(line, want[key]) {
			t.Errorf("a first sample is %q, want one of each of %v", line, want)
		}
		delete(want, key)
	}
	there.setAnswer(func(byte, byte, int, int) []byte { return nil }, nil)
	waitFor(t, b.missed, "server "+there.l.Addr().String())
	for range 3 {
		waitFor(t, b.samples, ": [5 1]")
	}
}
