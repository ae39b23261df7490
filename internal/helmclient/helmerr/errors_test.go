// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	terminating := apierrors.NewForbidden(secrets, "x", errors.New("namespace is being terminated"))
	const webhook = `failed calling webhook "x.example.com": failed to call webhook: Post ` +
		`"https://x.example.svc:443/mutate?timeout=10s": `
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := map[string]struct {
		err  error
		kind error
	}{
		"none":           {nil, nil},
		"refused":        {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), ErrUnreachable},
		"dns":            {fmt.Errorf("get: %w", &net.DNSError{Err: "no such host"}), ErrUnreachable},
		"deadline":       {fmt.Errorf("get: %w", ErrRequestDeadline), ErrUnreachable},
		"canceled":       {context.Canceled, nil},
		"too many":       {apierrors.NewTooManyRequests("later", 1), ErrUnreachable},
		"server timeout": {apierrors.NewServerTimeout(secrets, "get", 1), ErrUnreachable},
		"unavailable":    {apierrors.NewServiceUnavailable("starting"), ErrUnreachable},
		"unauthorized":   {fmt.Errorf("create: %w", apierrors.NewUnauthorized("who")), ErrUnauthorized},
		"forbidden":      {apierrors.NewForbidden(secrets, "x", errors.New("no")), ErrForbidden},
		"terminating":    {terminating, nil},
		"too large":      {apierrors.NewRequestEntityTooLargeError("limit"), ErrTooLarge},
		"record exists":  {driver.ErrReleaseExists, ErrStale},
		"own":            {fmt.Errorf("wrapped: %w", New(ErrInvalidChart, "bad")), ErrInvalidChart},
		"text: etcd":     {errors.New("failed to create resource: etcdserver: leader changed"), ErrUnreachable},
		"text: deadline": {errors.New(`cannot patch "a" with kind ConfigMap: Patch "https://a": ` +
			ErrRequestDeadline.Error() + ` && more`), ErrUnreachable},
		"text: EOF":       {errors.New(`cannot patch "a" with kind ConfigMap: Patch "https://a": EOF`), ErrUnreachable},
		"text: too large": {errors.New(`create: failed to create: Secret "sh.helm.release.v1.demo.v1" is invalid: data: Too long: may not be more than 1048576 bytes`), ErrTooLarge},
		"text: other too big": {errors.New(`ConfigMap "x" is invalid: []: Too long: may not be more than 1048576 bytes`),
			nil},
		"text: ownership": {errors.New(`Unable to continue with install: ConfigMap "a" in namespace "b" exists and cannot be imported into the current release: invalid`), ErrConflict},
		"text: in use":    {errors.New("cannot re-use a name that is still in use"), ErrStale},
		"text: hook": {errors.New("pre-upgrade hooks failed: 1 error occurred: * timed out waiting for the condition"),
			ErrTimeout},
		"text: forbidden":   {errors.New(`pods is forbidden: User "x" cannot create`), ErrForbidden},
		"text: terminating": {errors.New(`x is forbidden: unable to create new content in namespace a because it is being terminated`), nil},
		"text: template":    {errors.New(`template: demo/templates/a.yaml:1:2: executing "demo/templates/a.yaml": nil pointer`), ErrInvalidChart},
		"text: fail": {errors.New("execution error at (demo/templates/a.yaml:1:2): set database.host, or " +
			"connection refused"), ErrChartFailed},
		"text: kind": {errors.New(`unable to build kubernetes objects from release manifest: resource mapping not found for name: "a"` +
			` namespace: "" from "": no matches for kind "Odd" in version "odd.test/v1"`), ErrKindNotServed},
		"webhook refused": {apierrors.NewInternalError(errors.New(webhook +
			"dial tcp 10.0.0.1:443: connect: connection refused")), nil},
		"webhook timeout": {apierrors.NewInternalError(errors.New(webhook + "dial tcp 10.0.0.1:443: i/o timeout")), nil},
		"webhook reset": {apierrors.NewInternalError(errors.New(webhook + "read tcp 10.0.0.1:443: connection reset by peer")),
			nil},
		"webhook deadline": {apierrors.NewInternalError(errors.New(webhook + "context deadline exceeded")), nil},
		"webhook's answer": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusServiceUnavailable,
			Message: `admission webhook "x.example.com" denied the request: vault: connection refused`}}, nil},
		"text: policy": {errors.New(`configmaps "a" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied ` +
			`request: vault: connection refused`), nil},
		"text: webhook": {errors.New(`cannot patch "a" with kind ConfigMap: Internal error occurred: ` + webhook +
			`EOF && cannot patch "b" with kind ConfigMap: Internal error occurred: ` + webhook + "no such host"), nil},
		"text: conversion": {errors.New(`conversion webhook for example.com/v1, Kind=Thing failed: Post ` +
			`"https://x.example.svc:443/convert": dial tcp 10.0.0.1:443: connect: no route to host`), nil},
		"text: other": {errors.New("job hook failed: BackoffLimitExceeded"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Classify(test.err); !errors.Is(got, test.kind) {
				t.Errorf("got %v, want %v", got, test.kind)
			}
		})
	}
}

// TestSilentWebhookHasAdvice checks that the advice for a webhook that does not answer differs from the advice for one
// that rejects the object.
func TestSilentWebhookHasAdvice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`failed calling webhook "x": failed to call webhook: Post "https://x": EOF`: "repair the Service or the Pods",
		`conversion webhook for example.com/v1, Kind=Thing failed: EOF`:             "repair the Service or the Pods",
		`admission webhook "x" denied the request: no`:                              "change the object or the webhook",
	} {
		if got := Explain(errors.New(text)); !strings.Contains(got.Error(), want) {
			t.Errorf("%v", got)
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	err := error(&Error{Kind: ErrConflict, Action: model.ActionInstall, Message: `ConfigMap "a"`})
	if got, want := err.Error(), `install: object has another owner: ConfigMap "a"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wrapped := fmt.Errorf("release: %w", err)
	if !errors.Is(wrapped, ErrConflict) || errors.Is(wrapped, ErrStale) || errors.Is(&Error{}, ErrStale) {
		t.Error("kinds do not match as they should")
	}
	if got := (&Error{Message: "no"}).Error(); got != "no" || strings.Contains(got, ":") {
		t.Errorf("got %q", got)
	}
}
