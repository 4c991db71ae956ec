//go:build !linux

package line

import "net"

const controlBytes = 0

// enableDropCount does nothing: other systems do not report dropped packets.
func enableDropCount(*net.UDPConn) error { return nil }

func droppedPackets([]byte) uint32 { return 0 }
