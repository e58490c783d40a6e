package machine

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
)

const (
	keyBits = 2048
	// longestKey is in bytes; an RSA key of 16384 bits has 13,000.
	longestKey = 65536
)

// privateKeys are the types of PEM that ssh reads.
var privateKeys = map[string]bool{
	"OPENSSH PRIVATE KEY":   true,
	"RSA PRIVATE KEY":       true,
	"EC PRIVATE KEY":        true,
	"DSA PRIVATE KEY":       true,
	"PRIVATE KEY":           true,
	"ENCRYPTED PRIVATE KEY": true,
}

var publicKey = regexp.MustCompile(`^(ssh|ecdsa|sk)-[-a-z0-9@.]+ [A-Za-z0-9+/]+={0,2}( [^\r\n]*)?\r?\n?$`)

// makeKey puts the private SSH key where rancher-machine looks for it, and keeps the public one for
// the user data. With a key pair of Harvester, the check has found the public key.
func (m *Machine) makeKey() error {
	path := m.KeyPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if m.SSHPrivateKeyPath != "" {
		return m.copyKey(path)
	}
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return err
	}
	m.SSHPublicKey = authorized(&key.PublicKey)
	private := pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
	})
	if err := os.WriteFile(path, private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".pub", []byte(m.SSHPublicKey), 0o600)
}

func (m *Machine) copyKey(path string) error {
	private, public, err := m.givenKeys()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, private, 0o600); err != nil {
		return err
	}
	if m.KeyPairName != "" {
		return nil
	}
	m.SSHPublicKey = string(public)
	return os.WriteFile(path+".pub", public, 0o600)
}

// givenKeys are the private key of sshPrivateKeyPath and, without a key pair of Harvester, the public
// one beside it. rancher-machine stores them where users of Rancher may read them, so nothing but a
// key is taken from a file.
func (m *Machine) givenKeys() (private, public []byte, err error) {
	path := m.SSHPrivateKeyPath
	data, err := readShort(path)
	if err != nil {
		return nil, nil, fmt.Errorf("sshPrivateKeyPath: %w", err)
	}
	for private == nil {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, nil, fmt.Errorf("sshPrivateKeyPath: %s has no private SSH key as PEM. Name a file "+
				"that ssh-keygen wrote", path)
		}
		if privateKeys[block.Type] {
			private = pem.EncodeToMemory(block)
		}
	}
	if m.KeyPairName != "" {
		return private, nil, nil
	}
	if public, err = readShort(path + ".pub"); err != nil {
		return nil, nil, fmt.Errorf("sshPrivateKeyPath needs a file of the public key beside it: %w", err)
	}
	if !publicKey.Match(public) {
		return nil, nil, fmt.Errorf("sshPrivateKeyPath: %s.pub is not one public SSH key. Write it again: "+
			"ssh-keygen -y -f %s > %s.pub", path, path, path)
	}
	return private, public, nil
}

// readShort reads a regular file that can be a key.
func readShort(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if about.Size() > longestKey {
		return nil, fmt.Errorf("%s is longer than %d bytes, so it is not an SSH key", path, longestKey)
	}
	return os.ReadFile(path)
}

// authorized is a line of authorized_keys: RFC 4253, section 6.6.
func authorized(key *rsa.PublicKey) string {
	var wire []byte
	field := func(data []byte) {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(data)))
		wire = append(wire, data...)
	}
	number := func(value *big.Int) {
		data := value.Bytes()
		if data[0]&0x80 != 0 { // or it would be negative
			data = append([]byte{0}, data...)
		}
		field(data)
	}
	field([]byte("ssh-rsa"))
	number(big.NewInt(int64(key.E)))
	number(key.N)
	return "ssh-rsa " + base64.StdEncoding.EncodeToString(wire) + "\n"
}
