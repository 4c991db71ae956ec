package modbus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// link is a connection to a server. A frame is a header (transaction, protocol 0, bytes
// that follow; 16 bits each, high byte first), a unit, the code of a function, and what
// belongs to that.
type link struct {
	conn  net.Conn
	wait  time.Duration // for an answer
	id    uint16        // of the newest transaction
	frame [maxFrame]byte
	stop  func() bool
}

const (
	header   = 6
	maxFrame = 260 // so the specification has it
	refused  = 0x80
)

// dial connects. The connection ends with ctx, too.
func dial(ctx context.Context, addr string, wait time.Duration) (*link, error) {
	conn, err := (&net.Dialer{Timeout: wait}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("no connection: %w: check gateway.modbus.servers, and whether the device is on and serves Modbus TCP there", err)
	}
	return newLink(ctx, conn, wait), nil
}

func newLink(ctx context.Context, conn net.Conn, wait time.Duration) *link {
	return &link{conn: conn, wait: wait, stop: context.AfterFunc(ctx, func() { conn.Close() })}
}

func (l *link) close() {
	l.stop()
	l.conn.Close()
}

// ask sends a request and returns the registers of the answer, two bytes each, or bits,
// until the next request. After an error that is no *exception, nobody knows what comes
// next on the connection.
func (l *link) ask(q *request) ([]byte, error) {
	body, err := l.exchange(q)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the server has closed the connection: it may take no more of them, or not from this machine")
	case isTimeout(err):
		return nil, fmt.Errorf("no answer within %v: %s, or raise gateway.modbus.timeout", l.wait, q.otherUnit())
	case err != nil:
		return nil, err
	}
	size := 2 * q.count
	if q.table.bits() {
		size = (q.count + 7) / 8
	}
	switch unit, code := body[0], body[1]; {
	case unit != q.unit:
		return nil, noAnswer("it is of unit %d", unit)
	case code == q.table.code|refused && len(body) == 3:
		return nil, exception(body[2])
	case code != q.table.code:
		return nil, noAnswer("it is of function %d, asked for was %d", code, q.table.code)
	case len(body) != 3+size || int(body[2]) != size:
		return nil, noAnswer("it has %d bytes of values and says %d, want %d", max(len(body)-3, 0), body[min(2, len(body)-1)], size)
	}
	return body[3:], nil
}

// otherUnit is what to do where a unit does not answer.
func (q *request) otherUnit() string {
	if q.unit == 0 {
		return "name a unit (behind a gateway to a serial line, unit 0 speaks to all devices, and none of them answers; a device with a network address of its own may want 1 or 255)"
	}
	return "check the unit (a device with a network address of its own may want 255 or 0)"
}

// exchange sends a request, and returns what follows the header of the answer: a unit,
// a code and more.
func (l *link) exchange(q *request) ([]byte, error) {
	l.id++
	b := binary.BigEndian.AppendUint16(l.frame[:0], l.id)
	b = append(b, 0, 0, 0, 6, q.unit, q.table.code)
	b = binary.BigEndian.AppendUint16(b, uint16(q.at))
	b = binary.BigEndian.AppendUint16(b, uint16(q.count))
	if err := l.conn.SetDeadline(time.Now().Add(l.wait)); err != nil {
		return nil, err
	}
	if _, err := l.conn.Write(b); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(l.conn, l.frame[:header]); err != nil {
		return nil, err
	}
	id, protocol, n := binary.BigEndian.Uint16(l.frame[:]), binary.BigEndian.Uint16(l.frame[2:]), int(binary.BigEndian.Uint16(l.frame[4:]))
	switch {
	case protocol != 0:
		return nil, noAnswer("its protocol is %d, not 0", protocol)
	case n < 3 || n > maxFrame-header:
		return nil, noAnswer("it says that %d bytes follow: want 3 to %d", n, maxFrame-header)
	case id != l.id:
		return nil, noAnswer("it is of another transaction")
	}
	_, err := io.ReadFull(l.conn, l.frame[header:header+n])
	return l.frame[header : header+n], err
}

func isTimeout(err error) bool {
	t := net.Error(nil)
	return errors.As(err, &t) && t.Timeout()
}

func noAnswer(format string, args ...any) error {
	return fmt.Errorf("what comes is no answer of Modbus TCP to the request (%s): is another server at this address, or a converter that speaks RTU over TCP?", fmt.Sprintf(format, args...))
}

// exception is an answer that says why there is none: the connection is as it was.
type exception byte

// The exceptions that the specification names.
const (
	illegalFunction exception = 1
	illegalAddress  exception = 2
	illegalValue    exception = 3
	deviceFailure   exception = 4
	deviceBusy      exception = 6
	noPath          exception = 10
	noTarget        exception = 11
)

// illegal reports whether the device has not got those registers, or not so many at a
// time.
func (e exception) illegal() bool { return e == illegalAddress || e == illegalValue }

// away reports whether a server in front of the unit says that it does not answer.
func (e exception) away() bool { return e == noPath || e == noTarget }

// Error says what an exception means, and what to do.
func (e exception) Error() string {
	means := map[exception]string{
		illegalFunction: "the device has no such table: name another one in gateway.modbus.registers",
		illegalAddress:  "the device has no such address: correct gateway.modbus.registers (addresses count from 0: what a manual calls 40101 is holding:100)",
		illegalValue:    "the device does not give so many registers, or not this part of a value: correct gateway.modbus.registers",
		deviceFailure:   "the device has a fault: see its own messages",
		deviceBusy:      "the device is busy: raise gateway.modbus.interval if it often is",
		noPath:          "the server has no way to this unit: correct the unit, or its settings",
		noTarget:        "the unit does not answer the server: check the unit's number, its line and its power (the server's own registers are often those of unit 255 or 0)",
	}[e]
	if means == "" {
		means = "see the device's manual"
	}
	return fmt.Sprintf("exception %d: %s", byte(e), means)
}
