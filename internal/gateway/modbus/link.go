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

// link is a connection to a server. A frame has a header (transaction, protocol 0, number of
// the bytes after the header; 16 bits each, high byte first), a unit, a function code and the
// function's data.
type link struct {
	conn  net.Conn
	wait  time.Duration // timeout of one request
	id    uint16        // of the newest transaction
	frame [maxFrame]byte
	stop  func() bool
}

const (
	header     = 6
	maxFrame   = 260 // limit of the specification
	refusedBit = 0x80
)

// dialServer connects. The connection ends with ctx.
func dialServer(ctx context.Context, addr string, wait time.Duration) (*link, error) {
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

// request sends a request and returns the registers of the answer, two bytes each, or bits. The
// result is valid until the next request. After any error except an exception, the position in
// the byte stream is unknown.
func (l *link) request(q *request) ([]byte, error) {
	body, err := l.exchange(q)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the server has closed the connection: it may limit the number of connections, or refuse this computer")
	case isTimeout(err):
		return nil, fmt.Errorf("no answer within %v: %s, or raise gateway.modbus.timeout", l.wait, q.unitAdvice())
	case err != nil:
		return nil, err
	}
	size := 2 * q.count
	if q.table.isBits() {
		size = (q.count + 7) / 8
	}
	switch unit, code := body[0], body[1]; {
	case unit != q.unit:
		return nil, noAnswer("it has unit %d", unit)
	case code == q.table.code|refusedBit && len(body) == 3:
		return nil, exception(body[2])
	case code != q.table.code:
		return nil, noAnswer("it has function %d, want %d", code, q.table.code)
	case len(body) != 3+size || int(body[2]) != size:
		return nil, noAnswer("it has %d bytes of values and declares %d, want %d", max(len(body)-3, 0), body[min(2, len(body)-1)], size)
	}
	return body[3:], nil
}

// unitAdvice returns the advice for a unit without an answer.
func (q *request) unitAdvice() string {
	if q.unit == 0 {
		return "configure a unit (on a gateway to a serial line, unit 0 addresses all devices, and no device answers; a device with its own network address may require 1 or 255)"
	}
	return "check the unit (a device with its own network address may require 255 or 0)"
}

// exchange sends a request and returns the answer after its header: unit, function code and
// data.
func (l *link) exchange(q *request) ([]byte, error) {
	l.id++
	b := binary.BigEndian.AppendUint16(l.frame[:0], l.id)
	b = append(b, 0, 0, 0, 6, q.unit, q.table.code)
	b = binary.BigEndian.AppendUint16(b, uint16(q.address))
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
		return nil, noAnswer("it declares %d bytes: want 3 to %d", n, maxFrame-header)
	case id != l.id:
		return nil, noAnswer("it has another transaction")
	}
	_, err := io.ReadFull(l.conn, l.frame[header:header+n])
	return l.frame[header : header+n], err
}

func isTimeout(err error) bool {
	t := net.Error(nil)
	return errors.As(err, &t) && t.Timeout()
}

func noAnswer(format string, args ...any) error {
	return fmt.Errorf("the answer is not a valid Modbus TCP answer to the request (%s): is this address another server, or a converter for RTU over TCP?", fmt.Sprintf(format, args...))
}

// exception is the error code in an answer. The connection stays usable.
type exception byte

// The exceptions of the specification.
const (
	illegalFunction exception = 1
	illegalAddress  exception = 2
	illegalValue    exception = 3
	deviceFailure   exception = 4
	deviceBusy      exception = 6
	noPath          exception = 10
	noTarget        exception = 11
)

// isIllegal reports whether the device lacks the registers or refuses their number.
func (e exception) isIllegal() bool { return e == illegalAddress || e == illegalValue }

// isAway reports whether a gateway reports a unit without an answer.
func (e exception) isAway() bool { return e == noPath || e == noTarget }

// Error returns the meaning of an exception and the advice.
func (e exception) Error() string {
	means := map[exception]string{
		illegalFunction: "the device has no such table: configure another table in gateway.modbus.registers",
		illegalAddress:  "the device has no such address: correct gateway.modbus.registers (addresses start at 0: 40101 in a manual is holding:100)",
		illegalValue:    "the device refuses this number of registers, or a part of a value: correct gateway.modbus.registers",
		deviceFailure:   "the device has a fault: see its own messages",
		deviceBusy:      "the device is busy: if this happens often, raise gateway.modbus.interval",
		noPath:          "the server has no way to this unit: correct the unit, or its settings",
		noTarget:        "the unit does not answer the server: check the unit's number, its line and its power (the server's own registers often have unit 255 or 0)",
	}[e]
	if means == "" {
		means = "see the device's manual"
	}
	return fmt.Sprintf("exception %d: %s", byte(e), means)
}
