// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// Request is a request that an API server answered. A watch is a Request as soon as the answer has begun.
type Request struct {
	// Time is when the server received the request.
	Time time.Time
	// User is the authenticated user's name, such as
	// "system:serviceaccount:helmop-system:helmop-controller-manager".
	User string
	// Impersonated is the name of the user that User acted as; empty without impersonation.
	Impersonated string
	// UserAgent is the header that the client sent.
	UserAgent string
	// Verb is Kubernetes' verb in lower case: get, list, watch, create, update, patch, delete, deletecollection.
	Verb string
	// Group, Resource, Subresource, Namespace and Name identify the object of the request. They are empty if the URI is
	// not the URI of a resource.
	Group, Resource, Subresource, Namespace, Name string
	// URI is the path with its query.
	URI string
	// Code is the HTTP status.
	Code int
}

// Filter selects requests.
type Filter func(Request) bool

// Since selects the requests that the server received at t or later.
func Since(t time.Time) Filter { return func(r Request) bool { return !r.Time.Before(t) } }

// ByUser selects the requests of one authenticated user.
func ByUser(name string) Filter { return func(r Request) bool { return r.User == name } }

// ByUserAgent selects requests whose user agent contains text.
func ByUserAgent(text string) Filter {
	return func(r Request) bool { return strings.Contains(r.UserAgent, text) }
}

// OnResource selects requests about one resource, by its plural name.
func OnResource(resource string) Filter {
	return func(r Request) bool { return r.Resource == resource }
}

// WithVerb selects requests with one of the given verbs.
func WithVerb(verbs ...string) Filter {
	return func(r Request) bool {
		for _, v := range verbs {
			if r.Verb == v {
				return true
			}
		}
		return false
	}
}

// Writes selects requests that may change an object. An access review is created, but changes nothing.
func Writes() Filter {
	writes := WithVerb("create", "update", "patch", "delete", "deletecollection")
	return func(r Request) bool { return writes(r) && r.Group != authorizationv1.GroupName }
}

// Not selects the requests that the given filter does not select.
func Not(f Filter) Filter { return func(r Request) bool { return !f(r) } }

// auditLog is the part of an audit log that was read before. Tests read the log often, and the log gets long.
type auditLog struct {
	mu sync.Mutex
	// end is the offset at which the part that was read ends. began is the time from which requests count.
	end   int64
	began time.Time
	audit
}

// Requests returns the requests of the audit log that all filters select, in the order of the log. The log covers the
// time since the last Reset, or since the Server started; restarts of programs do not matter.
func (s *Server) Requests(filters ...Filter) ([]Request, error) {
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	file, err := s.openAudit(s.audit.end)
	if file == nil || err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	read, err := s.audit.read(file)
	s.audit.end += read
	if err != nil {
		return nil, err
	}
	return selectAll(s.audit.requests, slices.Concat(filters, []Filter{Since(s.audit.began)})), nil
}

// forgetAudit makes Requests ignore all earlier requests. A watch that started before may still write its end to the
// log.
func (s *Server) forgetAudit() error {
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	var err error
	s.audit.audit, s.audit.began = audit{}, time.Now()
	s.audit.end, err = s.AuditEnd()
	return err
}

// AuditEnd returns the offset at which the audit log ends now, for RequestsFrom.
func (s *Server) AuditEnd() (int64, error) {
	info, err := os.Stat(s.file(auditLogFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// RequestsFrom does the same as Requests, but reads only the part of the log after an offset from AuditEnd. So it is
// fast even after many thousands of requests. The result includes a watch that started before the offset and ended
// after it.
func (s *Server) RequestsFrom(from int64, filters ...Filter) ([]Request, error) {
	file, err := s.openAudit(from)
	if file == nil || err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var a audit
	_, err = a.read(file)
	return selectAll(a.requests, filters), err
}

// EachRequest calls do with each request of a user in the audit log, since the Server started, whether or not the
// Server was reset. It keeps no request in memory and parses no line of other users. A watch appears twice: by its
// start and by its end.
func (s *Server) EachRequest(user string, do func(Request)) error {
	file, err := s.openAudit(0)
	if file == nil || err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return eachRequest(file, user, do)
}

func eachRequest(log io.Reader, user string, do func(Request)) error {
	quoted, err := json.Marshal(user)
	if err != nil {
		return err
	}
	// kube-apiserver writes JSON without spaces.
	of := append([]byte(`"username":`), quoted...)
	_, err = eachLine(log, func(line []byte) error {
		if !bytes.Contains(line, of) {
			return nil
		}
		event, err := parseEvent(line)
		if err == nil && event.User.Username == user {
			do(event.request())
		}
		return err
	})
	return err
}

// openAudit opens the audit log at an offset; the file is nil if there is none yet.
func (s *Server) openAudit(from int64) (*os.File, error) {
	file, err := os.Open(s.file(auditLogFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// auditEvent holds the fields of audit.k8s.io/v1 Event that this package uses.
type auditEvent struct {
	AuditID    string `json:"auditID"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ImpersonatedUser struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

// audit holds the requests of an audit log.
type audit struct {
	requests []Request
	// seen has the ids of the requests, because each request is logged in several stages.
	seen map[string]bool
}

// read parses one event for each line. It returns the number of bytes that it has read, see eachLine.
func (a *audit) read(r io.Reader) (int64, error) {
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	return eachLine(r, func(line []byte) error {
		event, err := parseEvent(line)
		if err == nil && !a.seen[event.AuditID] {
			a.seen[event.AuditID] = true
			a.requests = append(a.requests, event.request())
		}
		return err
	})
}

func parseEvent(line []byte) (*auditEvent, error) {
	event := &auditEvent{}
	if err := json.Unmarshal(line, event); err != nil {
		return nil, fmt.Errorf("parse the audit log: %w", err)
	}
	return event, nil
}

// eachLine calls do with each line and returns how many bytes it read. It leaves a last line without a line break for
// the next call, because the line is still being written.
func eachLine(r io.Reader, do func(line []byte) error) (int64, error) {
	var taken int64
	for reader := bufio.NewReaderSize(r, 1<<16); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return taken, nil
		}
		if err == nil {
			err = do(line)
		}
		if err != nil {
			return taken, err
		}
		taken += int64(len(line))
	}
}

// selectAll returns the requests that all filters select.
func selectAll(requests []Request, filters []Filter) []Request {
	var found []Request
	for _, r := range requests {
		if selected(r, filters) {
			found = append(found, r)
		}
	}
	return found
}

func (e *auditEvent) request() Request {
	return Request{
		Time: e.RequestReceivedTimestamp, User: e.User.Username, Impersonated: e.ImpersonatedUser.Username,
		UserAgent: e.UserAgent, Verb: e.Verb,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, URI: e.RequestURI, Code: e.ResponseStatus.Code,
	}
}

func selected(r Request, filters []Filter) bool {
	for _, f := range filters {
		if !f(r) {
			return false
		}
	}
	return true
}
