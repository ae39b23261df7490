// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// accounts are the users of a registry with their passwords. A file holds them for the registry's process.
type accounts struct {
	file string

	mu        sync.Mutex
	passwords map[string]string
	hashes    map[string][]byte
	// readers are the users who may only pull.
	readers map[string]bool
	written time.Time
}

func newAccounts(file string) *accounts {
	return &accounts{file: file, passwords: map[string]string{}, hashes: map[string][]byte{}, readers: map[string]bool{},
		written: time.Now()}
}

// add gives a user a new password.
func (a *accounts) add(name string) (string, error) {
	password := rand.Text()
	// The lowest cost: the registry checks the password on every request.
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passwords[name], a.hashes[name] = password, hash
	return password, a.write()
}

// restrict permits a user to pull only.
func (a *accounts) restrict(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.readers[name] = true
}

func (a *accounts) isReader(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.readers[name]
}

func (a *accounts) remove(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.passwords, name)
	delete(a.hashes, name)
	return a.write()
}

func (a *accounts) password(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passwords[name]
}

func (a *accounts) valid(name, password string) bool {
	want := a.password(name)
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(password)) == 1
}

// write replaces the file; the caller holds mu.
func (a *accounts) write() error {
	var content bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(a.hashes)) {
		fmt.Fprintf(&content, "%s:%s\n", name, a.hashes[name])
	}
	// Replaced by a rename, because the registry may read the file at any time.
	next := a.file + ".next"
	if err := os.WriteFile(next, content.Bytes(), 0o600); err != nil {
		return err
	}
	// The registry reads the file again if its modification time differs. Two changes may fall into one tick of the file
	// system's clock.
	a.written = a.written.Add(time.Second)
	if err := os.Chtimes(next, a.written, a.written); err != nil {
		return err
	}
	return os.Rename(next, a.file)
}
