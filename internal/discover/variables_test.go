package discover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func variablesOf(paths ...string) (all []Variable) {
	for i, p := range paths {
		all = append(all, Variable{Path: strings.Split(p, "/"), Node: fmt.Sprintf("ns=1;i=%d", i)})
	}
	return all
}

// Objects with the same variables are a kind; each variable that is not used has a reason.
func TestFindVariables(t *testing.T) {
	all := variablesOf("Hall 1/Press 1/x", "Hall 1/Press 1/time", "Hall 1/Press 2/x", "Hall 1/Press 2/time", "Hall 1/Mill/x", "alone", "Hall_1/Press.1/x", "Hall 1/Mill/text", "Hall 1/Mill/x", "/x", "Hall 1/\x1b[2J/x\u202e", "Hall 1/Mill/y")
	all[11].Node = "ns=1;s=a\nb"
	all[7].Why = "a value of type String"
	l := FindVariables(all)
	var got []string
	for _, k := range l.Kinds {
		for _, m := range k.Machines {
			for _, c := range k.Channels {
				got = append(got, fmt.Sprintf("%d %s/%s=%s", len(k.Machines), m, c, k.Nodes[m][c]))
			}
		}
	}
	if want := []string{"2 Hall_1/Press_1/time_value=ns=1;i=1", "2 Hall_1/Press_1/x=ns=1;i=0", "2 Hall_1/Press_2/time_value=ns=1;i=3", "2 Hall_1/Press_2/x=ns=1;i=2", "1 Hall_1/Mill/x=ns=1;i=4", "1 Hall_1/_[2J/x_=ns=1;i=10"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	got = nil
	for _, o := range l.Other {
		got = append(got, o.Topic+": "+o.Why)
	}
	for i, want := range []string{"alone: a variable without an object", "Hall_1/Press.1/x: another object has the key Hall_1/Press_1", "Hall 1/Mill/text: a value of type String", "Hall 1/Mill/x: another variable has this name: ns=1;i=4", "Hall 1/Mill/y: a node id with control characters", ": the key"} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("unused %d: %q, want %q", i, got, want)
		}
	}
	many := make([]Variable, mostChannels+1)
	for i := range many {
		many[i] = Variable{Path: []string{"Store", fmt.Sprint("v", i)}, Node: "i=1"}
	}
	if l := FindVariables(many); len(l.Kinds) != 0 || len(l.Other) != 1 {
		t.Errorf("an object with too many variables: %d kinds, %v", len(l.Kinds), l.Other)
	}
}

// Other possible divisions into machines are reported.
func TestFindVariablesDoubts(t *testing.T) {
	for _, test := range []struct{ want, paths string }{
		{"", "Hall/P1/x Hall/P2/x Hall/Oven/t"},
		{"P1/Motor and P1/Bearing may be parts of one machine: each is a machine", "P1/Motor/current P1/Bearing/vibration P2/Motor/current P2/Bearing/vibration"},
		{"P1 has variables, and objects with variables such as P1/Motor: each is a machine", "P1/x P1/Motor/current P2/x P2/Motor/current"},
		{"the variables of Plant may belong to 2 machines (by their names, such as P1_flow): they are one machine", "Plant/P1_flow Plant/P1_speed Plant/P2_flow Plant/P2_speed"},
		{"", "Plant/P1_flow Plant/P1_speed Plant/P2_flow"},
	} {
		if got := strings.Join(FindVariables(variablesOf(strings.Fields(test.paths)...)).Doubts, "; "); got != test.want {
			t.Errorf("%s: %q, want %q", test.paths, got, test.want)
		}
	}
}
