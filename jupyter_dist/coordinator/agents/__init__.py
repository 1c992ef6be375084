"""How agents get in and are reached: launched, admitted, told what to run; limits for strangers."""
