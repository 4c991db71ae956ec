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

// heartbeatEvery is the interval of a process's heartbeats. Tests shorten it.
var heartbeatEvery = 10 * time.Second

const (
	// rememberTime is how long workers remember a process after its last heartbeat.
	rememberTime = time.Hour
	// MostSightings is the maximum number of processes that a worker remembers.
	MostSightings = 64
)

// Sighting is a process whose heartbeats a worker received. It is also the JSON form of a
// heartbeat.
type Sighting struct {
	Role string    `json:"role"` // RoleStage, RoleGateway or RoleAlarms
	ID   string    `json:"id"`   // of the process
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	Last time.Time `json:"last"`           // time of the last heartbeat, by the worker's clock
	Left bool      `json:"left,omitempty"` // the process ended orderly; only in heartbeats
}

// sightings are the processes that a worker remembers. Several goroutines may call its methods.
type sightings struct {
	mu  sync.Mutex
	all map[string]Sighting // by ID
}

// recordHeartbeat decodes and records a heartbeat. Unreadable heartbeats are ignored.
func (s *sightings) recordHeartbeat(data []byte, now time.Time) {
	var h Sighting
	if len(data) > mostBytes || json.Unmarshal(data, &h) != nil || h.ID == "" || !slices.Contains([]string{RoleStage, RoleGateway, RoleAlarms}, h.Role) {
		return
	}
	cleanNames(&h.ID, &h.Host)
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

// recentSightings returns the processes with a heartbeat in the last hour, newest first.
func (s *sightings) recentSightings(now time.Time) []Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Sighting
	for id, sighting := range s.all {
		if now.Sub(sighting.Last) > rememberTime {
			delete(s.all, id)
			continue
		}
		all = append(all, sighting)
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

// findVanished returns the remembered processes that neither answer nor ended orderly. A later
// process with the same role and host replaces one of them.
func findVanished(processes []Process, now time.Time) []Sighting {
	last := map[string]Sighting{}
	for i := range processes {
		if s := processes[i].Stage; s != nil {
			for _, sighting := range s.Sightings {
				if known, ok := last[sighting.ID]; !ok || known.Last.Before(sighting.Last) {
					last[sighting.ID] = sighting
				}
			}
		}
	}
	for i := range processes {
		delete(last, processes[i].ID)
	}
	all := []Sighting{}
	for _, sighting := range last {
		if age := now.Sub(sighting.Last); age > 2*heartbeatEvery && age < rememberTime {
			all = append(all, sighting)
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
	_, err := r.nc.Subscribe(wire.HeartbeatSubject(r.self.Job), func(m *nats.Msg) { r.sightings.recordHeartbeat(m.Data, time.Now()) })
	return err
}

// publishHeartbeat informs workers that this process runs, or that it ends orderly.
func (r *Responder) publishHeartbeat(left bool) {
	data, err := json.Marshal(Sighting{Role: r.constant.Role, ID: r.constant.ID, Host: r.constant.Host, PID: r.constant.PID, Last: time.Now().UTC(), Left: left})
	if err == nil {
		err = r.nc.Publish(wire.HeartbeatSubject(r.self.Job), data)
	}
	if err != nil && !r.nc.IsClosed() {
		r.log.Debug("cannot publish a heartbeat", "err", err)
	}
}

// judgeVanished reports workers and gateways that did not end orderly. Workers still on the job's
// list and alarm processes have other findings.
func (r *Report) judgeVanished() {
	for _, sighting := range r.Vanished {
		about, what, result, do := "", "", "", ""
		switch {
		case sighting.Role == RoleGateway:
			about, what, result = "gateway", "gateway", "its devices may have no gateway"
			do = "check its log, then restart it with the same configuration: its outbox has the acknowledged samples; a gateway removed on purpose is forgotten after an hour"
		case sighting.Role == RoleStage && len(r.Silent) == 0:
			about, what, result = "workers", "worker", "the other workers have its partitions"
			do = "check its log, then restart it with the same configuration; a worker removed on purpose is forgotten after an hour"
		default:
			continue
		}
		r.addFinding(Attention, about, fmt.Sprintf("the %s on %s (process %d) answered until %s ago and did not shut down cleanly: %s", what, sighting.Host, sighting.PID, formatSeconds(r.Time.Sub(sighting.Last).Seconds()), result), do)
	}
}
