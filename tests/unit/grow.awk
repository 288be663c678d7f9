# Prints a header of the library as a later version may have it: each struct that the library fills
# in, or that begins with its size, gets three more words at its end.
/^struct hf_(party|behind|lock_info|voter_info|status|fact|break_info|member_info|backup_info) \{/ { inside = 1 }
/^struct hf_(options|lock_options|reason) \{/ { inside = 1 }
inside && /^};/ {
    print "    uint64_t grown[3];"
    inside = 0
}
{ print }
