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
	keepSession     = 7 * 24 * time.Hour // for idle sessions with messages of QoS 1 or 2
	keepUnused      = time.Hour          // for other idle sessions: their devices wait for no acknowledgement
	sweepEvery      = time.Second
	maxIdleSessions = 20_000   // beyond, the sessions idle longest are dropped
	sessionBytes    = 48 << 20 // memory limit of idle sessions
	sessionCost     = 1500     // approximate bytes of a session
	filterCost      = 300      // approximate bytes of a subscription
)

// idleSession is a session without a connection.
type idleSession struct {
	client *mochi.Client
	since  int64 // seconds since the Unix epoch
	used   bool  // the device has sent with QoS 1 or 2
	cost   int
}

// sweepSessions drops expired and excess sessions every second until the broker ends.
func (h *hook) sweepSessions() {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(sweepEvery):
			h.sweepOnce(time.Now())
		}
	}
}

// compareIdle sorts unused sessions before used sessions, then by idle time, longest first.
func compareIdle(a, b idleSession) int {
	if a.used != b.used {
		if a.used {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.since, b.since)
}

// sweepOnce examines all sessions without a connection. The library keeps a client of many
// kilobytes per session, even if the connection ended before its setup was complete. Such a
// client is dropped, or replaced by a client with only the session. The remaining sessions are
// limited in time, number and bytes.
func (h *hook) sweepOnce(now time.Time) {
	var idle []idleSession
	bytes := 0
	for id, cl := range h.server.Clients.GetAll() {
		if cl.Net.Inline || !cl.Closed() || cl.StopTime() == 0 {
			continue
		}
		a := idleSession{client: cl, since: cl.StopTime(), used: h.hasUsed(id), cost: sessionCost + len(id)}
		for filter := range cl.State.Subscriptions.GetAll() {
			a.cost += len(filter) + filterCost
		}
		if a.isExpired(now.Unix()) {
			h.dropSession(cl)
			continue
		}
		if cl.Net.Conn != nil {
			a.client = h.shrinkClient(cl)
		}
		idle = append(idle, a)
		bytes += a.cost
	}
	h.forgetUnused()
	limit := cmp.Or(h.options.maxIdleSessions, maxIdleSessions)
	if len(idle) <= limit && bytes <= sessionBytes {
		return
	}
	slices.SortFunc(idle, compareIdle)
	dropped := 0
	for i := 0; i < len(idle) && (len(idle)-i > limit || bytes > sessionBytes); i++ {
		bytes -= idle[i].cost
		if h.dropSession(idle[i].client) {
			dropped++
		}
	}
	h.gateway.Forgotten(dropped)
	h.options.Log.Warn("sessions of disconnected devices were deleted: the broker's limit is reached. Such a device starts a new session when it reconnects", "forgotten", dropped, "kept", len(idle)-dropped)
}

// isExpired reports whether a session has expired.
func (a *idleSession) isExpired(now int64) bool {
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

// dropSession deletes a session, unless its device is reconnecting.
func (h *hook) dropSession(cl *mochi.Client) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isIdle(cl) {
		return false
	}
	h.server.UnsubscribeClient(cl)
	h.server.Clients.Delete(cl.ID)
	delete(h.used, cl.ID)
	return true
}

// shrinkClient replaces a client with a closed connection by a client with only the session,
// and returns the session's client.
func (h *hook) shrinkClient(cl *mochi.Client) *mochi.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isIdle(cl) || cl.State.Inflight.Len() > 0 {
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

// isIdle reports whether a client still owns its session, and no connection of the same device
// is being set up. The caller holds mu.
func (h *hook) isIdle(cl *mochi.Client) bool {
	other := h.connecting[cl.ID]
	current, ok := h.server.Clients.Get(cl.ID)
	return ok && current == cl && (other == nil || other.Closed()) && h.devices[cl] == nil
}

// hasUsed reports whether a device has sent with QoS 1 or 2.
func (h *hook) hasUsed(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used[id]
}

// forgetUnused deletes connections without a complete setup, and the marks of devices without a
// session.
func (h *hook) forgetUnused() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, cl := range h.connecting {
		if cl.Closed() {
			delete(h.connecting, id)
		}
	}
	if len(h.used) <= 2*maxIdleSessions {
		return
	}
	for id := range h.used {
		if _, found := h.server.Clients.Get(id); !found {
			delete(h.used, id)
		}
	}
}
