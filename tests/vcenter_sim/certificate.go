package main

// A certificate authority, and the certificate of the simulator. Both follow from a seed, so that a
// simulator that is started by hand has the same thumbprint every time and everywhere; a key that
// anybody can make protects nothing, which is all that a simulator has.

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha1" // vSphere's users know thumbprints of this kind
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// identity is what a client needs to know this server.
type identity struct {
	Thumbprint       string `json:"thumbprint"`
	ThumbprintSHA256 string `json:"thumbprintSha256"`
	CA               string `json:"ca"` // PEM

	certificate tls.Certificate
}

func colons(digest []byte) string {
	var parts []string
	for _, b := range digest {
		parts = append(parts, fmt.Sprintf("%02X", b))
	}
	return strings.Join(parts, ":")
}

// newIdentity makes an identity; an empty seed makes one that there never was.
func newIdentity(seed string) (*identity, error) {
	if seed == "" {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return nil, err
		}
		seed = hex.EncodeToString(random)
	}
	of := func(name string) (ed25519.PrivateKey, *x509.Certificate) {
		digest := sha256.Sum256([]byte(seed + name))
		year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
		return ed25519.NewKeyFromSeed(digest[:]), &x509.Certificate{
			SerialNumber: new(big.Int).SetBytes(digest[:8]), SubjectKeyId: digest[8:28],
			Subject: pkix.Name{CommonName: name}, NotBefore: year(2020), NotAfter: year(2120),
			BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature}
	}
	caKey, ca := of("vCenter simulator CA")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	key, leaf := of("vCenter simulator")
	leaf.DNSNames, leaf.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	short, long := sha1.Sum(der), sha256.Sum256(der)
	return &identity{colons(short[:]), colons(long[:]),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})),
		tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}, nil
}
