package grpcnet

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// protocol is raised by every change that two versions could not talk over.
const protocol = 5

// challenge is the first word of a server: prove yourself over this nonce.
type challenge struct {
	Protocol int    `json:"protocol"`
	Nonce    []byte `json:"nonce"`
}

// sealed is a handshake message with the proof that its author knows the
// secret. The other side's nonce makes it good for one use.
type sealed struct {
	Protocol int    `json:"protocol"`
	Body     []byte `json:"body"`
	MAC      []byte `json:"mac"`
}

// nonceSize is that of a nonce, and of a proof.
const nonceSize = 32

func newNonce() []byte {
	b := make([]byte, nonceSize)
	_, _ = rand.Read(b) // never fails
	return b
}

func proof(key []byte, label string, nonce, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	var n [8]byte
	for _, part := range [][]byte{[]byte(label), nonce, body} {
		le.PutUint64(n[:], uint64(len(part)))
		m.Write(n[:])
		m.Write(part)
	}
	return m.Sum(nil)
}

// linkKey is the secret of the links of one rendezvous.
func linkKey(token string, session []byte) []byte {
	return proof([]byte(token), "session", session, nil)
}

func sendJSON(s stream, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("handshake message of %d bytes, at most %d are possible", len(b), maxMessage)
	}
	return sendBytes(s, b)
}

func recvJSON(s stream, v any) error {
	b, err := recvBytes(s)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("handshake message: %w", err)
	}
	return nil
}

// sendSealed sends v with its proof.
func sendSealed(s stream, key []byte, label string, nonce []byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return sendJSON(s, sealed{Protocol: protocol, Body: body, MAC: proof(key, label, nonce, body)})
}

var errProof = errors.New("wrong token")

// open checks the proof, in constant time, before anything inside is looked at.
func (m *sealed) open(key []byte, label string, nonce []byte, v any) error {
	if !hmac.Equal(m.MAC, proof(key, label, nonce, m.Body)) {
		return errProof
	}
	return json.Unmarshal(m.Body, v)
}
