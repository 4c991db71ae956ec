package line

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

const (
	packetBytes  = 64 << 10
	packetQueue  = 4096    // packets that wait for the gateway
	kernelBuffer = 4 << 20 // bytes that wait in the kernel
)

// UDP accepts lines from packets until Close.
type UDP struct {
	gateway    *gateway.Gateway
	log        *slog.Logger
	conn       *net.UDPConn
	queue      chan packet
	stop       context.CancelFunc
	ctx        context.Context
	goroutines sync.WaitGroup
}

// packet is a packet, and the number of lost messages before the packet.
type packet struct {
	lines []byte
	lost  uint64
}

// ListenUDP starts to accept packets for g.
func ListenUDP(g *gateway.Gateway, addr string, log *slog.Logger) (*UDP, error) {
	a, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	c, err := net.ListenUDP("udp", a)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if err := c.SetReadBuffer(kernelBuffer); err != nil {
		log.Warn("the system limits the UDP buffer: packets may be lost before the gateway reads them", "err", err)
	}
	if err := enableDropCount(c); err != nil {
		log.Warn("the system does not report dropped UDP packets: predictions with missing samples carry no flag", "err", err)
	}
	u := &UDP{gateway: g, log: log, conn: c, queue: make(chan packet, packetQueue)}
	u.ctx, u.stop = context.WithCancel(context.Background())
	u.goroutines.Go(u.readPackets)
	u.goroutines.Go(u.forwardPackets)
	return u, nil
}

// Addr returns the address of the socket.
func (u *UDP) Addr() net.Addr { return u.conn.LocalAddr() }

// Close ends the receiving of packets.
func (u *UDP) Close() {
	u.stop()
	u.conn.Close()
	u.goroutines.Wait()
}

// readPackets reads packets from the system, and drops packets when the queue is full.
func (u *UDP) readPackets() {
	defer close(u.queue)
	buf, control := make([]byte, packetBytes), make([]byte, controlBytes)
	dropped := uint32(0) // by the system
	for {
		n, controlLen, _, _, err := u.conn.ReadMsgUDPAddrPort(buf, control)
		if err != nil {
			if u.ctx.Err() == nil {
				u.log.Error("the gateway no longer accepts lines over UDP", "err", err)
			}
			return
		}
		if count := droppedPackets(control[:controlLen]); count != 0 && count != dropped {
			u.gateway.DropUnseen(gateway.UDP, count-dropped)
			dropped = count
		}
		select {
		case u.queue <- packet{bytes.Clone(buf[:n]), u.gateway.Lost()}:
		default:
			u.gateway.Drop(gateway.UDP)
		}
	}
}

func (u *UDP) forwardPackets() {
	for p := range u.queue {
		if err := u.gateway.Take(u.ctx, &gateway.Message{Input: gateway.UDP, From: "udp", Lines: true, Payload: p.lines, Lost: p.lost}); err == gateway.ErrHeldBack || err == gateway.ErrStopped {
			u.gateway.Drop(gateway.UDP)
		}
	}
}
