package operate

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// Without its leader a cluster does not list all copies: a request for a server without
// a name would wait indefinitely.
func TestAllCopiesAreNamed(t *testing.T) {
	peers := []*jetstream.PeerInfo{{Name: "b"}, {Name: "c"}}
	for name, c := range map[string]struct {
		replicas int
		cluster  *jetstream.ClusterInfo
		want     bool
	}{
		"no cluster":     {1, nil, true},
		"one copy":       {1, &jetstream.ClusterInfo{Leader: "a"}, true},
		"three copies":   {3, &jetstream.ClusterInfo{Leader: "a", Replicas: peers}, true},
		"no leader":      {3, &jetstream.ClusterInfo{Replicas: peers}, false},
		"one is missing": {3, &jetstream.ClusterInfo{Leader: "a", Replicas: peers[:1]}, false},
	} {
		info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: c.replicas}, Cluster: c.cluster}
		if got := isComplete(info); got != c.want {
			t.Errorf("%s: complete %v, want %v", name, got, c.want)
		}
	}
}
