//go:build simulation && chaos && linux

package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// room is the free space of a disk. A full disk takes the first free bytes of a write, and
// refuses the rest. Names, lengths and removals of files need no space.
type room struct {
	name    string // of the owner
	full    bool
	free    int // bytes, while the disk is full
	refused int // writes
}

// findRoom returns the number of bytes of a write that the disk of an open file takes.
func findRoom(fd, n int) int {
	if !slices.ContainsFunc(disks, func(d *disk) bool { return d.room.full }) {
		return n
	}
	d, _ := findDisk(fd)
	if d == nil || !d.room.full || n <= 0 {
		return n
	}
	taken := min(n, d.room.free)
	d.room.free -= taken
	if taken < n {
		d.room.refused++
	}
	return taken
}

// awaitSpace waits until the disk has free space.
func (r *room) awaitSpace() {
	for r.full {
		time.Sleep(10 * time.Millisecond)
	}
}

// drawFills draws full disks, after all other draws.
func (s *scenario) drawFills(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<43))
	if !s.May.isLenient() && rng.Float64() < .2 {
		s.Fills = 1 + rng.IntN(2)
	}
}

// fillDisks fills the disk of the server, of a guest, or all disks, until the end of the
// fault. A server that could not write accepts no messages until its operator restarts it
// (docs/faults.md), or waits forever for its own lock: nats-server 2.15.3, if a purge could not
// write. A kill of the server ends when there is space.
func (h *history) fillDisks(e event) {
	w := h.world
	rooms, names := []*room{w.disk.room}, []string{"server"}
	for _, g := range h.guests {
		if g.disk != nil {
			rooms, names = append(rooms, g.disk.room), append(names, g.name)
		}
	}
	if which := int(e.pick>>16) % (2 + len(rooms)); which < len(rooms) {
		rooms, names = rooms[which:which+1], names[which:which+1]
	}
	if slices.ContainsFunc(rooms, func(r *room) bool { return r.full }) {
		return
	}
	w.filled = w.filled || names[0] == "server"
	for i, r := range rooms {
		r.name, r.full, r.free = names[i], true, int(e.pick)%(16<<10)>>(i*4)
		w.count(fillDisk + " of the " + names[i])
	}
	w.log.Info("FAULT: "+fillDisk, "of", strings.Join(names, " and "), "free", rooms[0].free)
	time.Sleep(e.d)
	for _, r := range rooms {
		r.full = false
	}
	if names[0] != "server" {
		return
	}
	w.mu.Lock()
	ns, failed := w.server, w.unwell.Load()
	w.mu.Unlock()
	if ns == nil || !failed && answers(ns) {
		return
	}
	down := time.Duration(e.pick>>8%1500) * time.Millisecond
	if err := w.replaceStore(down, "restart after a full disk", copyStore, false); err != nil && err != errRefused {
		h.fail("the server does not start after a full disk: %v", err)
	}
}

// answers reports whether a server answers for all its NATS streams.
func answers(ns *server.Server) bool {
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		return false
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverStart)
	defer cancel()
	streams := js.ListStreams(ctx)
	for range streams.Info() {
	}
	return streams.Err() == nil
}
