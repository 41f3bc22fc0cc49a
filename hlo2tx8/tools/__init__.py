"""The command `hlo2tx8`: run, compile, profile, check, bisect, opt."""
