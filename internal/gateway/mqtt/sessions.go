package mqtt

import (
	"cmp"
	"slices"
	"strings"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	keepSession  = 7 * 24 * time.Hour // of a device that is away, if it has sent with QoS 1 or 2
	keepUnused   = time.Hour          // of one that has not: it waits for no acknowledgement
	sweepEvery   = time.Second
	sessionsAway = 20_000   // beyond, those away longest are forgotten
	sessionBytes = 48 << 20 // of them
	sessionCost  = 1500     // bytes of a session, about
	filterCost   = 300      // bytes of a subscription, about
)

// away is a session whose device is not connected.
type away struct {
	client *mochi.Client
	since  int64 // seconds since the Unix epoch
	used   bool  // the device has sent with QoS 1 or 2
	cost   int
}

// sweepSessions forgets, until the broker ends, what connections have left behind.
func (h *hook) sweepSessions() {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(sweepEvery):
			h.sweep(time.Now())
		}
	}
}

// compareAway orders unused sessions before used ones, and of each kind those first that are
// away longest.
func compareAway(a, b away) int {
	if a.used != b.used {
		if a.used {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.since, b.since)
}

// sweep goes through the sessions without a connection. The broker has a client of
// many kilobytes for each, also where a connection has ended before it was set up: such
// a client is dropped, or replaced by one that has the session alone. What is left is
// limited in time, number and bytes.
func (h *hook) sweep(now time.Time) {
	var all []away
	bytes := 0
	for id, cl := range h.server.Clients.GetAll() {
		if cl.Net.Inline || !cl.Closed() || cl.StopTime() == 0 {
			continue
		}
		a := away{client: cl, since: cl.StopTime(), used: h.hasUsed(id), cost: sessionCost + len(id)}
		for filter := range cl.State.Subscriptions.GetAll() {
			a.cost += len(filter) + filterCost
		}
		if a.expired(now.Unix()) {
			h.drop(cl)
			continue
		}
		if cl.Net.Conn != nil {
			a.client = h.reduce(cl)
		}
		all = append(all, a)
		bytes += a.cost
	}
	h.forgetUnused()
	most := cmp.Or(h.o.sessionsAway, sessionsAway)
	if len(all) <= most && bytes <= sessionBytes {
		return
	}
	slices.SortFunc(all, compareAway)
	dropped := 0
	for i := 0; i < len(all) && (len(all)-i > most || bytes > sessionBytes); i++ {
		bytes -= all[i].cost
		if h.drop(all[i].client) {
			dropped++
		}
	}
	h.g.Forgotten(dropped)
	h.o.Log.Warn("sessions of devices that are away are forgotten: there are more than the broker keeps. A device that comes back begins a new session", "forgotten", dropped, "kept", len(all)-dropped)
}

// expired reports whether a session is over.
func (a *away) expired(now int64) bool {
	p := &a.client.Properties
	if p.ProtocolVersion < 5 && p.Clean {
		return true
	}
	keep := int64(keepSession / time.Second)
	if p.ProtocolVersion >= 5 {
		keep = min(keep, int64(p.Props.SessionExpiryInterval))
	}
	if !a.used {
		keep = min(keep, int64(keepUnused/time.Second))
	}
	return a.since+keep <= now
}

// drop forgets a session, unless its device is coming back.
func (h *hook) drop(cl *mochi.Client) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isAway(cl) {
		return false
	}
	h.server.UnsubscribeClient(cl)
	h.server.Clients.Delete(cl.ID)
	delete(h.used, cl.ID)
	return true
}

// reduce replaces a client that has had a connection by one that has its session alone.
// It returns the client of the session.
func (h *hook) reduce(cl *mochi.Client) *mochi.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isAway(cl) || cl.State.Inflight.Len() > 0 {
		return cl
	}
	small := h.server.NewClient(nil, cl.Net.Listener, strings.Clone(cl.ID), false)
	small.Properties.ProtocolVersion, small.Properties.Clean = cl.Properties.ProtocolVersion, cl.Properties.Clean
	small.Properties.Props = packets.Properties{SessionExpiryIntervalFlag: cl.Properties.Props.SessionExpiryIntervalFlag, SessionExpiryInterval: cl.Properties.Props.SessionExpiryInterval}
	for filter, sub := range cl.State.Subscriptions.GetAll() {
		small.State.Subscriptions.Add(filter, sub)
	}
	small.Stop(nil)
	h.server.Clients.Add(small)
	return small
}

// isAway reports whether a client is still that of its session, and no connection of the
// same device is being set up. The caller holds mu.
func (h *hook) isAway(cl *mochi.Client) bool {
	coming := h.coming[cl.ID]
	there, ok := h.server.Clients.Get(cl.ID)
	return ok && there == cl && (coming == nil || coming.Closed()) && h.devices[cl] == nil
}

// hasUsed reports whether a session has messages that may come again.
func (h *hook) hasUsed(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used[id]
}

// forgetUnused forgets connections that were not set up, and devices whose sessions
// are gone.
func (h *hook) forgetUnused() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, cl := range h.coming {
		if cl.Closed() {
			delete(h.coming, id)
		}
	}
	if len(h.used) <= 2*sessionsAway {
		return
	}
	for id := range h.used {
		if _, there := h.server.Clients.Get(id); !there {
			delete(h.used, id)
		}
	}
}
