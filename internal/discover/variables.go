package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// mostChannels is the largest number of channels of an object with variables.
const mostChannels = 1000

// Variable is a variable of a server with an address space, such as OPC UA.
type Variable struct {
	Path []string // names of its objects and of the variable
	Node string
	Why  string // reason against its use; empty: it is a number
}

// FindVariables finds the kinds of machines in an address space: an object with variables is a
// machine, its variables with numbers are the channels. The key of a machine has the names of its
// objects.
func FindVariables(variables []Variable) Layout {
	var l Layout
	machines := map[string]*builder{}
	for _, v := range variables {
		last := len(v.Path) - 1
		switch {
		case v.Why == "" && last < 1:
			v.Why = "a variable without an object"
		case v.Why == "" && strings.ContainsFunc(v.Node, names.IsControl):
			v.Why = "a node id with control characters"
		}
		if v.Why != "" {
			l.Other = append(l.Other, Other{printable(strings.Join(v.Path, "/")), v.Why})
			continue
		}
		key := keyOf(v.Path[:last])
		m := machines[key]
		if m == nil {
			m = &builder{kind: Kind{Machines: []string{key}, Nodes: map[string]map[string]string{key: {}}}, topics: v.Path[:last]}
			machines[key] = m
		}
		name := printable(channelName(v.Path[last]))
		switch nodes := m.kind.Nodes[key]; {
		case !slices.Equal(m.topics, v.Path[:last]):
			l.Other = append(l.Other, Other{printable(strings.Join(v.Path, "/")), "another object has the key " + key})
		case nodes[name] != "":
			l.Other = append(l.Other, Other{printable(strings.Join(v.Path, "/")), "another variable has this name: " + nodes[name]})
		default:
			nodes[name] = v.Node
		}
	}
	kinds := map[string]*Kind{}
	for _, key := range sortedKeys(machines) {
		k := machines[key].kind
		k.Channels = sortedKeys(k.Nodes[key])
		if why := checkMachine(key, k.Channels); why != "" {
			l.Other = append(l.Other, Other{printable(key), why})
			continue
		}
		signature := fmt.Sprintf("%q", k.Channels)
		if same := kinds[signature]; same != nil {
			same.Machines = append(same.Machines, key)
			same.Nodes[key] = k.Nodes[key]
		} else {
			kinds[signature] = &k
		}
	}
	for _, signature := range sortedKeys(kinds) {
		l.Kinds = append(l.Kinds, *kinds[signature])
	}
	sortKinds(l.Kinds)
	l.Doubts = doubtsOf(l.Kinds)
	return l
}

// sortKinds puts the kind with the most machines first, then that with the most channels.
func sortKinds(kinds []Kind) {
	slices.SortStableFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(len(b.Machines), len(a.Machines)), cmp.Compare(len(b.Channels), len(a.Channels)))
	})
}

// checkMachine returns the reason against an object.
func checkMachine(key string, channels []string) string {
	if err := gateway.CheckKey(key); err != nil {
		return err.Error()
	}
	if len(channels) > mostChannels {
		return fmt.Sprintf("%d variables with numbers in one object, at most %d", len(channels), mostChannels)
	}
	if err := names.CheckAll("channel", channels); err != nil {
		return err.Error()
	}
	return ""
}

// keyOf is the key of an object. Characters that a key cannot have become _.
func keyOf(path []string) string {
	parts := make([]string, len(path))
	for i, name := range path {
		parts[i] = strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || strings.ContainsRune(".*>/,\x00", r) || names.IsControl(r) {
				return '_'
			}
			return r
		}, name)
	}
	return strings.Join(parts, "/")
}

// printable replaces control characters.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if names.IsControl(r) {
			return '_'
		}
		return r
	}, name)
}

// doubtsOf describes other possible divisions into machines.
func doubtsOf(kinds []Kind) (doubts []string) {
	kindOf := map[string]int{}
	for i, k := range kinds {
		for _, m := range k.Machines {
			kindOf[m] = i
		}
	}
	said := map[[2]int]bool{}
	sameParents := map[string]string{} // the first machine of a kind, by the parents of the kind
	for i, k := range kinds {
		var parents []string
		for _, m := range k.Machines {
			parent := m[:max(0, strings.LastIndexByte(m, '/'))]
			parents = append(parents, parent)
			if of, itself := kindOf[parent]; itself && !said[[2]int{of, i}] {
				said[[2]int{of, i}] = true
				doubts = append(doubts, fmt.Sprintf("%s has variables, and objects with variables such as %s: each is a machine", parent, m))
			}
		}
		list := fmt.Sprintf("%q", parents)
		if first := sameParents[list]; first != "" && parents[0] != parents[len(parents)-1] {
			doubts = append(doubts, fmt.Sprintf("%s and %s may be parts of one machine: each is a machine", first, k.Machines[0]))
		}
		sameParents[list] = k.Machines[0]
		if n := prefixes(k.Channels); n > 1 {
			doubts = append(doubts, fmt.Sprintf("the variables of %s may belong to %d machines (by their names, such as %s): they are one machine", k.Machines[0], n, k.Channels[0]))
		}
	}
	return doubts
}

// prefixes returns the number of machines in an object if the names of its variables are all pairs
// of the beginnings and the ends, with at least two of each; otherwise 0.
func prefixes(channels []string) int {
	for _, separator := range []string{".", "_", " ", "-", ":"} {
		ends, begins := map[string]bool{}, map[string]bool{}
		complete := true
		for _, c := range channels {
			at := strings.LastIndex(c, separator)
			if complete = complete && at > 0; !complete {
				break
			}
			begins[c[:at]], ends[c[at:]] = true, true
		}
		if complete && len(begins) > 1 && len(ends) > 1 && len(begins)*len(ends) == len(channels) {
			return len(begins)
		}
	}
	return 0
}
