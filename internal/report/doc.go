// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report has functions with which controllers report: they set conditions, write a status in one request, and
// limit the number of Events. It does not decide what to report. Callers pass an object that they may change: functions
// for conditions change only the object in memory.
package report
