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
	kernelBuffer = 4 << 20 // bytes that wait for us
)

// UDP takes lines from packets until Close.
type UDP struct {
	g     *gateway.Gateway
	log   *slog.Logger
	conn  *net.UDPConn
	queue chan packet
	stop  context.CancelFunc
	ctx   context.Context
	all   sync.WaitGroup
}

// packet is a packet, and how many messages were lost before it.
type packet struct {
	lines []byte
	lost  uint64
}

// ListenUDP starts to take packets for g.
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
		log.Warn("the system gives UDP a small buffer: packets may be lost before the gateway sees them", "err", err)
	}
	if err := countUnseen(c); err != nil {
		log.Warn("the system does not tell how many UDP packets it drops: predictions of what is missing carry no flag", "err", err)
	}
	u := &UDP{g: g, log: log, conn: c, queue: make(chan packet, packetQueue)}
	u.ctx, u.stop = context.WithCancel(context.Background())
	u.all.Go(u.read)
	u.all.Go(u.take)
	return u, nil
}

// Addr is where it listens.
func (u *UDP) Addr() net.Addr { return u.conn.LocalAddr() }

// Close ends it.
func (u *UDP) Close() {
	u.stop()
	u.conn.Close()
	u.all.Wait()
}

// read takes packets from the system and drops those for which there is no room.
func (u *UDP) read() {
	defer close(u.queue)
	buf, control := make([]byte, packetBytes), make([]byte, controlBytes)
	dropped := uint32(0) // by the system
	for {
		n, told, _, _, err := u.conn.ReadMsgUDPAddrPort(buf, control)
		if err != nil {
			if u.ctx.Err() == nil {
				u.log.Error("lines are no longer taken over UDP", "err", err)
			}
			return
		}
		if now := unseen(control[:told]); now != 0 && now != dropped {
			u.g.DropUnseen(gateway.UDP, now-dropped)
			dropped = now
		}
		select {
		case u.queue <- packet{bytes.Clone(buf[:n]), u.g.Lost()}:
		default:
			u.g.Drop(gateway.UDP)
		}
	}
}

func (u *UDP) take() {
	for p := range u.queue {
		if err := u.g.Take(u.ctx, &gateway.Message{Input: gateway.UDP, From: "udp", Lines: true, Payload: p.lines, Lost: p.lost}); err == gateway.ErrHeldBack || err == gateway.ErrStopped {
			u.g.Drop(gateway.UDP)
		}
	}
}
