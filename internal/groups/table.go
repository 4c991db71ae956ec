package groups

// None is the number for no group.
const None = -1

// Table numbers the groups of a rule, from 0 in the order of first use.
type Table struct {
	Rule  *Rule
	Names []string

	number map[string]int
}

// NewTable returns an empty table; nil for a nil rule.
func NewTable(r *Rule) *Table {
	if r == nil {
		return nil
	}
	return &Table{Rule: r, number: map[string]int{}}
}

// Number returns the number of a group; None for the empty name.
func (t *Table) Number(name string) int {
	if name == "" {
		return None
	}
	n, known := t.number[name]
	if !known {
		n = len(t.Names)
		t.number[name], t.Names = n, append(t.Names, name)
	}
	return n
}

// Name returns the name of a group's number; empty for None.
func (t *Table) Name(number int) string {
	if number == None {
		return ""
	}
	return t.Names[number]
}
