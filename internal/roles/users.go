package roles

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"regexp"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// User is a line of a users file.
type User struct {
	Name string
	Role Role
	Hash string // of the password, bcrypt
}

// maxUsers bounds a users file: each user has its rights in the server's memory.
const maxUsers = 10_000

// userName: the name is also a token of the subjects on which answers arrive.
var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// hashed is what the NATS server takes for a bcrypt hash. It would compare any
// other text with the password itself.
var hashed = regexp.MustCompile(`^\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}$`)

// mostCost is the highest cost of a hash, a quarter of a second. The server computes one
// for each connection, also for those with a wrong password: at a cost of 20 a single one
// takes a minute.
const mostCost = 12

// ReadUsers reads a users file. Its errors name the line.
func ReadUsers(r io.Reader) ([]User, error) {
	var users []User
	there := map[string]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		f := strings.Fields(text)
		if len(f) != 3 {
			return nil, fmt.Errorf("roles: line %d has %d words, want three: a name, a role, the bcrypt hash of the password", n, len(f))
		}
		u := User{f[0], Role(f[1]), f[2]}
		if err := u.check(); err != nil {
			return nil, fmt.Errorf("roles: line %d: %w", n, err)
		}
		if there[u.Name] {
			return nil, fmt.Errorf("roles: line %d: user %q is there twice", n, u.Name)
		}
		if there[u.Name] = true; len(users) == maxUsers {
			return nil, fmt.Errorf("roles: line %d: more than %d users", n, maxUsers)
		}
		users = append(users, u)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("roles: %w", err)
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("roles: no users: want a line for each, with a name, a role and the bcrypt hash of the password")
	}
	return users, nil
}

func (u *User) check() error {
	if !userName.MatchString(u.Name) {
		return fmt.Errorf("user %q, want at most 64 letters, digits, - and _", u.Name)
	}
	if !hashed.MatchString(u.Hash) { // the text may be a password: not shown
		return fmt.Errorf("user %q: the third word is no bcrypt hash, want one that begins with $2a$, such as htpasswd -B makes", u.Name)
	}
	if cost, err := bcrypt.Cost([]byte(u.Hash)); err != nil || cost < bcrypt.MinCost || cost > mostCost {
		return fmt.Errorf("user %q: the bcrypt hash has the cost %d, want %d to %d: htpasswd -nBC 10", u.Name, cost, bcrypt.MinCost, mostCost)
	}
	return u.Role.Check()
}

// Line is the user in a users file, without an end of line.
func (u *User) Line() string { return fmt.Sprintf("%s %s %s", u.Name, u.Role, u.Hash) }

// hashCost is bcrypt's least, a millisecond. A higher one makes passwords slow to
// guess: nobody guesses 130 random bits, and each connection would pay for it.
const hashCost = bcrypt.MinCost

// NewUser makes a user with a password of 130 random bits.
func NewUser(name string, role Role) (u User, password string, err error) {
	password = rand.Text()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), hashCost)
	if err != nil {
		return User{}, "", fmt.Errorf("roles: %w", err)
	}
	u = User{name, role, string(hash)}
	return u, password, u.check()
}
