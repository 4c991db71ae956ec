package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// heartbeatEvery is how often a process publishes a heartbeat. Tests shorten it.
var heartbeatEvery = 10 * time.Second

const (
	// remembered is how long workers remember a process after its last heartbeat.
	remembered = time.Hour
	// MostSightings is how many processes a worker remembers.
	MostSightings = 64
)

// Sighting is a process that a worker has had heartbeats from. It is also the heartbeat's
// form as JSON.
type Sighting struct {
	Role string    `json:"role"` // RoleStage, RoleGateway or RoleAlarms
	ID   string    `json:"id"`   // of the process
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	Last time.Time `json:"last"`           // of the last heartbeat, by the worker's clock
	Left bool      `json:"left,omitempty"` // the process ended in order; in heartbeats only
}

// sightings are the processes that a worker remembers. Its methods may be called from several
// goroutines.
type sightings struct {
	mu  sync.Mutex
	all map[string]Sighting // by ID
}

// record decodes a heartbeat. Heartbeats of unknown form are ignored.
func (s *sightings) record(data []byte, now time.Time) {
	var h Sighting
	if len(data) > mostBytes || json.Unmarshal(data, &h) != nil || h.ID == "" || !slices.Contains([]string{RoleStage, RoleGateway, RoleAlarms}, h.Role) {
		return
	}
	names(&h.ID, &h.Host)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Left {
		delete(s.all, h.ID)
		return
	}
	if s.all == nil {
		s.all = map[string]Sighting{}
	}
	h.Last = now.UTC()
	s.all[h.ID] = h
	if len(s.all) > MostSightings {
		oldest := h
		for _, other := range s.all {
			if other.Last.Before(oldest.Last) {
				oldest = other
			}
		}
		delete(s.all, oldest.ID)
	}
}

// list returns the processes with a heartbeat in the last hour, newest first.
func (s *sightings) list(now time.Time) []Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Sighting
	for id, one := range s.all {
		if now.Sub(one.Last) > remembered {
			delete(s.all, id)
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, newestSighting)
	return all
}

func newestSighting(a, b Sighting) int {
	if c := b.Last.Compare(a.Last); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

// vanished returns, of the processes that workers remember, those that neither answer nor have
// ended in order. A process of the same role and host that started later replaces one of them.
func vanished(processes []Process, now time.Time) []Sighting {
	last := map[string]Sighting{}
	for i := range processes {
		if s := processes[i].Stage; s != nil {
			for _, one := range s.Sightings {
				if known, ok := last[one.ID]; !ok || known.Last.Before(one.Last) {
					last[one.ID] = one
				}
			}
		}
	}
	for i := range processes {
		delete(last, processes[i].ID)
	}
	all := []Sighting{}
	for _, one := range last {
		if age := now.Sub(one.Last); age > 2*heartbeatEvery && age < remembered {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, newestSighting)
	for i := range processes {
		p := &processes[i]
		if at := slices.IndexFunc(all, func(s Sighting) bool { return s.Role == p.Role && s.Host == p.Host && s.Last.Before(p.Started) }); at >= 0 {
			all = slices.Delete(all, at, at+1)
		}
	}
	return all[:min(len(all), MostSightings)]
}

// watchHeartbeats subscribes a worker to heartbeats.
func (r *Responder) watchHeartbeats() error {
	_, err := r.nc.Subscribe(wire.HeartbeatSubject(r.self.Job), func(m *nats.Msg) { r.seen.record(m.Data, time.Now()) })
	return err
}

// publishHeartbeat tells workers that this process runs, or that it ends in order.
func (r *Responder) publishHeartbeat(left bool) {
	data, err := json.Marshal(Sighting{Role: r.all.Role, ID: r.all.ID, Host: r.all.Host, PID: r.all.PID, Last: time.Now().UTC(), Left: left})
	if err == nil {
		err = r.nc.Publish(wire.HeartbeatSubject(r.self.Job), data)
	}
	if err != nil && !r.nc.IsClosed() {
		r.log.Debug("a heartbeat was not published", "err", err)
	}
}

// aboutVanished reports workers and gateways that ended without a word. A worker that is still
// on the job's list, and processes of alarms, are findings of their own.
func (r *Report) aboutVanished() {
	for _, one := range r.Vanished {
		about, what, result, do := "", "", "", ""
		switch {
		case one.Role == RoleGateway:
			about, what, result = "gateway", "gateway", "its devices may have no gateway now"
			do = "look at its log, then start it again with the same configuration: its outbox has what it acknowledged; a gateway that was removed on purpose is forgotten after an hour"
		case one.Role == RoleStage && len(r.Silent) == 0:
			about, what, result = "workers", "worker", "the other workers have its partitions"
			do = "look at its log, then start it again with the same configuration; a worker that was removed on purpose is forgotten after an hour"
		default:
			continue
		}
		r.add(Attention, about, fmt.Sprintf("the %s on %s (process %d) answered until %s ago and did not end in order: %s", what, one.Host, one.PID, seconds(r.Time.Sub(one.Last).Seconds()), result), do)
	}
}
