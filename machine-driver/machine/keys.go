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
)

const keyBits = 2048

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
	private, err := os.ReadFile(m.SSHPrivateKeyPath)
	if err != nil {
		return fmt.Errorf("sshPrivateKeyPath: %w", err)
	}
	if err := os.WriteFile(path, private, 0o600); err != nil {
		return err
	}
	if m.KeyPairName != "" {
		return nil
	}
	public, err := os.ReadFile(m.SSHPrivateKeyPath + ".pub")
	if err != nil {
		return fmt.Errorf("sshPrivateKeyPath needs a file of the public key beside it: %w", err)
	}
	m.SSHPublicKey = string(public)
	return os.WriteFile(path+".pub", public, 0o600)
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
