package discover

import (
	"cmp"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/values"
)

// patternsOf returns patterns of the topics of machines, one for each number of levels: levels
// that differ are wildcards, else the last level. single: each topic has a further level.
func patternsOf(topics []string, single bool) (patterns []string) {
	byLength := map[int][][]string{}
	for _, t := range topics {
		levels := strings.Split(t, "/")
		byLength[len(levels)] = append(byLength[len(levels)], levels)
	}
	lengths := make([]int, 0, len(byLength))
	for n := range byLength {
		lengths = append(lengths, n)
	}
	slices.SortFunc(lengths, func(a, b int) int { return cmp.Compare(b, a) })
	for _, n := range lengths {
		pattern := slices.Clone(byLength[n][0])
		wild := false
		for i := range pattern {
			for _, levels := range byLength[n][1:] {
				if levels[i] != byLength[n][0][i] {
					pattern[i], wild = "+", true
				}
			}
		}
		if !wild {
			pattern[n-1] = "+"
		}
		if single {
			pattern = append(pattern, "+")
		}
		patterns = append(patterns, strings.Join(pattern, "/"))
	}
	return patterns
}

// hasStrangers reports whether the patterns match topics of other machines.
func hasStrangers(all []string, own map[string]bool, topics *gateway.Topics, single bool) bool {
	for _, topic := range all {
		machine := topic
		if single {
			machine, _ = values.Split(topic)
		}
		if _, err := topics.Key(topic); err == nil && !own[machine] {
			return true
		}
	}
	return false
}
