package line

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// controlBytes is room for the number of packets that the system has dropped.
var controlBytes = unix.CmsgSpace(4)

// countUnseen makes the system say with each packet how many it has dropped before it.
func countUnseen(c *net.UDPConn) error {
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

// unseen is how many packets the system had dropped since the beginning, modulo 2^32,
// when a packet came. The system does not say 0.
func unseen(control []byte) uint32 {
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_RXQ_OVFL && len(data) >= 4 {
			return binary.NativeEndian.Uint32(data)
		}
		control = rest
	}
	return 0
}
