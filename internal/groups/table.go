package groups

// None is the number of no group.
const None = -1

// Table numbers the groups of a rule, from 0 in the order in which they are met.
type Table struct {
	Rule  *Rule
	Names []string

	number map[string]int
}

// NewTable numbers nothing yet; of a nil rule it is nil.
func NewTable(r *Rule) *Table {
	if r == nil {
		return nil
	}
	return &Table{Rule: r, number: map[string]int{}}
}

// Number is that of a group; None of the empty name.
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

// Name is that of a group's number; empty of None.
func (t *Table) Name(number int) string {
	if number == None {
		return ""
	}
	return t.Names[number]
}
