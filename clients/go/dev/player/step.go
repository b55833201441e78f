package main

import "encoding/json"

// step is one line of input, with the arguments of all operations.
type step struct {
	ID              json.Number `json:"id"`
	Do              string      `json:"do"`
	Client          string      `json:"client"`
	Address         string      `json:"address"`
	Environment     environment `json:"environment"`
	DeadlineMs      *float64    `json:"deadline_ms"`
	Retries         *int        `json:"retries"`
	TLSCA           string      `json:"tls_ca"`
	Token           string      `json:"token"`
	TokenFile       string      `json:"token_file"`
	ThreadID        *string     `json:"thread_id"`
	ThreadIDs       *[]string   `json:"thread_ids"`
	RequestID       string      `json:"request_id"`
	Reason          string      `json:"reason"`
	Holder          string      `json:"holder"`
	TTLMs           float64     `json:"ttl_ms"`
	ElicitationID   *string     `json:"elicitation_id"`
	PageSize        int32       `json:"page_size"`
	PageToken       string      `json:"page_token"`
	IncludeRunning  bool        `json:"include_running"`
	IncludeElicits  bool        `json:"include_elicitations"`
	Observer        bool        `json:"observer"`
	Hold            string      `json:"hold"`
	Watch           string      `json:"watch"`
	Timeout         string      `json:"timeout"`
	Pause           string      `json:"pause"`
	Wait            string      `json:"wait"`
	StayMs          float64     `json:"stay_ms"`
	Throws          bool        `json:"throws"`
	BestEffort      bool        `json:"best_effort"`
	WithinMs        float64     `json:"within_ms"`
	LimitMs         float64     `json:"limit_ms"`
	Count           int         `json:"count"`
	WorkMs          float64     `json:"work_ms"`
	DisconnectGrace *float64    `json:"disconnect_grace_ms"`
	MaxWallMs       *float64    `json:"max_wall_ms"`
}
