package line

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// controlBytes is the room for the system's count of dropped packets.
var controlBytes = unix.CmsgSpace(4)

// enableDropCount makes the system report with each packet how many packets it has dropped
// before.
func enableDropCount(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1) }); err != nil {
		return err
	}
	return failed
}

// droppedPackets returns the system's count of dropped packets since the start, modulo 2^32.
// The system omits the count 0.
func droppedPackets(control []byte) uint32 {
	for len(control) > 0 {
		h, data, next, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_RXQ_OVFL && len(data) >= 4 {
			return binary.NativeEndian.Uint32(data)
		}
		control = next
	}
	return 0
}
