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

// User is one line of a users file.
type User struct {
	Name string
	Role Role
	Hash string // bcrypt hash of the password
}

// maxUsers limits a users file: the server stores the rights of each user in memory.
const maxUsers = 10_000

// userName matches a valid name. The name is also a token of the inbox subjects.
var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// hashPattern matches the texts that the NATS server accepts as a bcrypt hash. The server would
// compare any other text directly with the password.
var hashPattern = regexp.MustCompile(`^\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}$`)

// maxCost is the highest accepted cost of a hash, a quarter of a second. The server computes a
// hash for each connection, even with a wrong password: at cost 20 one hash takes a minute.
const maxCost = 12

// ReadUsers reads a users file. Errors contain the line number.
func ReadUsers(r io.Reader) ([]User, error) {
	var users []User
	known := map[string]bool{}
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
		if err := u.validate(); err != nil {
			return nil, fmt.Errorf("roles: line %d: %w", n, err)
		}
		if known[u.Name] {
			return nil, fmt.Errorf("roles: line %d: user %q is listed twice", n, u.Name)
		}
		if known[u.Name] = true; len(users) == maxUsers {
			return nil, fmt.Errorf("roles: line %d: more than %d users", n, maxUsers)
		}
		users = append(users, u)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("roles: %w", err)
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("roles: no users: want one line per user, with a name, a role and the bcrypt hash of the password")
	}
	return users, nil
}

func (u *User) validate() error {
	if !userName.MatchString(u.Name) {
		return fmt.Errorf("user %q, want at most 64 letters, digits, - and _", u.Name)
	}
	if !hashPattern.MatchString(u.Hash) { // the text may be a password: never print it
		return fmt.Errorf("user %q: the third word is not a bcrypt hash: want a hash that begins with $2a$, such as from htpasswd -B", u.Name)
	}
	if cost, err := bcrypt.Cost([]byte(u.Hash)); err != nil || cost < bcrypt.MinCost || cost > maxCost {
		return fmt.Errorf("user %q: the bcrypt hash has the cost %d, want %d to %d: htpasswd -nBC 10", u.Name, cost, bcrypt.MinCost, maxCost)
	}
	return u.Role.Validate()
}

// FormatLine returns the user's line of a users file, without a line end.
func (u *User) FormatLine() string { return fmt.Sprintf("%s %s %s", u.Name, u.Role, u.Hash) }

// hashCost is the minimum of bcrypt, a millisecond. A higher cost protects guessable passwords;
// 130 random bits are not guessable, and each connection would pay the cost.
const hashCost = bcrypt.MinCost

// NewUser makes a user with a password of 130 random bits.
func NewUser(name string, role Role) (u User, password string, err error) {
	password = rand.Text()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), hashCost)
	if err != nil {
		return User{}, "", fmt.Errorf("roles: %w", err)
	}
	u = User{name, role, string(hash)}
	return u, password, u.validate()
}
